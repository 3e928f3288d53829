internal import CallCore
internal import CallTelemetry
internal import Synchronization

/// A stream of what is kept for apps, in memory. Policy when full: the oldest message is dropped.
public final class InProcessAppStream: AppStream {
  static let messagesMax = 10_000

  struct Shared {
    var messages: [(app: String, message: StoredRecords)] = []
    var lastSequence: UInt64 = 0
    /// The sequences of `messages`, by id.
    var ids: [String: UInt64] = [:]

    mutating func add(
      _ id: String, _ app: String, _ bytes: [UInt8], at now: Timestamp
    ) -> AppendResult {
      if let sequence = ids[id] { return .appended(sequence: sequence) }
      lastSequence += 1
      let message = StoredRecords(sequence: lastSequence, bytes: bytes, storedAt: now)
      messages.append((app, message))
      ids[id] = lastSequence
      if messages.count > InProcessAppStream.messagesMax {
        let first = messages.removeFirst().message.sequence
        ids = ids.filter { $0.value != first }
      }
      return .appended(sequence: lastSequence)
    }
  }

  private let core: InProcessCore
  private let kind: AppStreamKind
  private let subject: @Sendable (String) -> String

  /// - Parameter subject: where what is added for an app is published as well, as the store's server does.
  init(
    _ core: InProcessCore, _ kind: AppStreamKind, subject: @escaping @Sendable (String) -> String
  ) {
    self.core = core
    self.kind = kind
    self.subject = subject
  }

  public func create(followingLimits: Bool) async throws {}

  public func add(
    id: String, app: String, _ bytes: [UInt8], completion: @escaping AppendCompletion
  ) {
    core.write(
      completion, fault: { [kind] in $0.onAppStream?(kind, id) },
      body: { [core, kind, subject] _ in
        let now = Timestamp(microseconds: 1000 * CalendarTime.nowMilliseconds())
        let result = core.store.withLock {
          $0.appStreams[kind, default: Shared()].add(id, app, bytes, at: now)
        }
        _ = core.publish(CollectionOfOne(OutgoingMessage(subject: subject(app), bytes: bytes)))
        return result
      })
  }

  public func next(of app: String, from sequence: UInt64) async throws -> StoredRecords? {
    try await messages { $0.first { $0.app == app && $0.message.sequence >= sequence }?.message }
  }

  public func last(of app: String) async throws -> StoredRecords? {
    try await messages { $0.last { $0.app == app }?.message }
  }

  public func range() async throws -> ClosedRange<UInt64>? {
    try await messages { messages in
      guard let first = messages.first, let last = messages.last else { return nil }
      return first.message.sequence...last.message.sequence
    }
  }

  private func messages<Value: Sendable>(
    _ read: @escaping @Sendable ([(app: String, message: StoredRecords)]) -> Value
  ) async throws -> Value {
    try await core.withStore { [kind] in read($0.appStreams[kind]?.messages ?? []) }
  }
}
