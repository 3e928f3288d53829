package import CallBus
internal import CallCore

/// The streams of what is kept for apps, at the simulated server.
struct SimAppStreams {
  struct Message {
    var app: String
    var stored: StoredRecords
  }

  private(set) var messages: [AppStreamKind: [Message]] = [:]
  private var ids: [String: UInt64] = [:]

  /// `isNew` is false for a message that was deduplicated.
  mutating func add(
    _ kind: AppStreamKind, _ id: String, _ app: String, _ bytes: [UInt8], at now: Timestamp
  ) -> (result: AppendResult, isNew: Bool) {
    let id = "\(kind) \(id)"
    if let known = ids[id] { return (.appended(sequence: known), false) }
    let sequence = UInt64(messages[kind, default: []].count + 1)
    ids[id] = sequence
    let stored = StoredRecords(sequence: sequence, bytes: bytes, storedAt: now)
    messages[kind, default: []].append(Message(app: app, stored: stored))
    return (.appended(sequence: sequence), true)
  }
}

package final class SimAppStream: AppStream, @unchecked Sendable {
  private let bus: SimBus
  private let kind: AppStreamKind
  private let timeout: Span

  init(_ bus: SimBus, _ kind: AppStreamKind, timeout: Duration) {
    self.bus = bus
    self.kind = kind
    self.timeout = Span(timeout)
  }

  package func create(followingLimits: Bool) async throws { try await bus.ask {} }

  package func add(
    id: String, app: String, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    bus.writes.write(
      .appStream(kind), timeout: timeout, mayBeRefused: false,
      apply: { [nats = bus.nats, kind] in nats.add(kind, id, app, bytes) }, completion: completion)
  }

  package func next(of app: String, from sequence: UInt64) async throws -> StoredRecords? {
    try await messages { $0.first { $0.app == app && $0.stored.sequence >= sequence }?.stored }
  }

  package func last(of app: String) async throws -> StoredRecords? {
    try await messages { $0.last { $0.app == app }?.stored }
  }

  package func range() async throws -> ClosedRange<UInt64>? {
    try await messages { $0.isEmpty ? nil : 1...UInt64($0.count) }
  }

  private func messages<Value: Sendable>(
    _ read: @escaping ([SimAppStreams.Message]) -> Value
  ) async throws -> Value {
    try await bus.ask { [nats = bus.nats, kind] in read(nats.appStreams.messages[kind] ?? []) }
  }
}

extension SimNATS {
  func add(
    _ kind: AppStreamKind, _ id: String, _ app: String, _ bytes: [UInt8]
  ) -> AppendResult {
    guard let bytes = tamper.changesAppStream(bytes) else { return .appended(sequence: 1) }
    let (result, isNew) = appStreams.add(kind, id, app, bytes, at: world.now)
    if isNew { for look in observers.keptForApps { look(kind, bytes) } }
    return result
  }
}
