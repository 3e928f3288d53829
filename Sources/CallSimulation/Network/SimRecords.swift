package import CallBus
internal import CallCore

/// The stream of call records at the simulated server.
struct SimRecords {
  private(set) var messages: [StoredRecords] = []
  private var ids: [String: UInt64] = [:]

  /// `isNew` is false for a message that was deduplicated.
  mutating func add(_ id: String, _ bytes: [UInt8], at now: Timestamp) -> (
    result: AppendResult, isNew: Bool
  ) {
    if let known = ids[id] { return (.appended(sequence: known), false) }
    let sequence = UInt64(messages.count + 1)
    ids[id] = sequence
    messages.append(StoredRecords(sequence: sequence, bytes: bytes, storedAt: now))
    return (.appended(sequence: sequence), true)
  }
}

package final class SimRecordStream: RecordStream, @unchecked Sendable {
  private let bus: SimBus
  private let timeout: Span

  init(_ bus: SimBus, timeout: Duration) {
    self.bus = bus
    self.timeout = Span(timeout)
  }

  package func create(followingLimits: Bool) async throws { try await bus.ask {} }

  package func add(
    id: String, _ bytes: [UInt8], completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    bus.writes.write(
      .records, timeout: timeout, mayBeRefused: false,
      apply: { [nats = bus.nats] in nats.addRecords(id, bytes) }, completion: completion)
  }

  package func range() async throws -> ClosedRange<UInt64>? {
    try await bus.ask { [nats = bus.nats] in
      nats.records.messages.isEmpty ? nil : 1...UInt64(nats.records.messages.count)
    }
  }

  package func messages(_ sequences: ClosedRange<UInt64>) async throws -> [StoredRecords] {
    try await bus.ask { [nats = bus.nats] in
      nats.records.messages.filter { sequences.contains($0.sequence) }
    }
  }
}

extension SimNATS {
  func addRecords(_ id: String, _ bytes: [UInt8]) -> AppendResult {
    guard let bytes = tamper.changesRecords(bytes) else { return .appended(sequence: 1) }
    let (result, isNew) = records.add(id, bytes, at: world.now)
    if isNew { for look in observers.recorded { look(bytes) } }
    return result
  }
}
