package import CallBus
package import CallCore

/// The histories of users at the simulated server.
struct SimHistories {
  private(set) var messages: [UserKey: [StoredRecord]] = [:]
  private var ids: [String: UInt64] = [:]
  private var lastSequence: UInt64 = 0

  /// `isNew` is false for a message that was deduplicated.
  mutating func add(
    _ user: UserKey, _ id: String, _ bytes: [UInt8], most: Int
  ) -> (result: AppendResult, isNew: Bool) {
    if let known = ids[id] { return (.appended(sequence: known), false) }
    lastSequence += 1
    ids[id] = lastSequence
    messages[user, default: []].append(StoredRecord(sequence: lastSequence, bytes: bytes))
    if messages[user]?.count ?? 0 > most { messages[user]?.removeFirst() }
    return (.appended(sequence: lastSequence), true)
  }
}

package final class SimHistoryStream: HistoryStream, @unchecked Sendable {
  private let bus: SimBus
  private let options: HistoryOptions

  init(_ bus: SimBus, _ options: HistoryOptions) {
    self.bus = bus
    self.options = options
  }

  package func create(followingLimits: Bool) async throws { try await bus.ask {} }

  package func add(
    _ user: UserKey, id: String, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    let most = options.messagesPerUser
    bus.writes.write(
      .history, timeout: Span(options.addTimeout), mayBeRefused: false,
      apply: { [nats = bus.nats] in nats.addHistory(user, id, bytes, most: most) },
      completion: completion)
  }

  package func messages(of user: UserKey) async throws -> [StoredRecord] {
    try await bus.ask { [nats = bus.nats] in nats.histories.messages[user] ?? [] }
  }
}

extension SimNATS {
  fileprivate func addHistory(
    _ user: UserKey, _ id: String, _ bytes: [UInt8], most: Int
  ) -> AppendResult {
    guard let bytes = tamper.changesHistory(bytes) else { return .appended(sequence: 1) }
    let (result, isNew) = histories.add(user, id, bytes, most: most)
    if isNew, case .appended(let number) = result {
      for look in observers.remembered { look(user, number, bytes) }
    }
    return result
  }
}
