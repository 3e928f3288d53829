internal import CallCore
internal import CallTelemetry
internal import Synchronization

/// The stream of records in memory. Policy when full: the oldest message is dropped.
public final class InProcessRecords: RecordStream {
  static let messagesMax = 10_000

  struct Shared {
    var messages: [StoredRecords] = []
    var lastSequence: UInt64 = 0
    /// The sequences of `messages`, by id.
    var ids: [String: UInt64] = [:]

    mutating func add(_ id: String, _ bytes: [UInt8], at now: Timestamp) -> AppendResult {
      if let sequence = ids[id] { return .appended(sequence: sequence) }
      lastSequence += 1
      messages.append(StoredRecords(sequence: lastSequence, bytes: bytes, storedAt: now))
      ids[id] = lastSequence
      if messages.count > InProcessRecords.messagesMax {
        let first = messages.removeFirst().sequence
        ids = ids.filter { $0.value != first }
      }
      return .appended(sequence: lastSequence)
    }
  }

  private let core: InProcessCore

  init(_ core: InProcessCore) { self.core = core }

  public func create(followingLimits: Bool) async throws {}

  public func add(id: String, _ bytes: [UInt8], completion: @escaping AppendCompletion) {
    core.write(
      completion, fault: { $0.onRecords?(id) },
      body: { [core] _ in
        let now = Timestamp(microseconds: 1000 * CalendarTime.nowMilliseconds())
        return core.store.withLock { $0.records.add(id, bytes, at: now) }
      })
  }

  public func range() async throws -> ClosedRange<UInt64>? {
    try await core.withStore { store in
      guard let first = store.records.messages.first else { return nil }
      return first.sequence...store.records.lastSequence
    }
  }

  public func messages(_ sequences: ClosedRange<UInt64>) async throws -> [StoredRecords] {
    try await core.withStore { store in
      store.records.messages.filter { sequences.contains($0.sequence) }
    }
  }
}
