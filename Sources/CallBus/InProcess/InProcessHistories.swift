public import CallCore
internal import Synchronization

/// The histories of users in memory.
public final class InProcessHistories: HistoryStream {
  struct Shared {
    var messages: [UserKey: [StoredRecord]] = [:]
    var lastSequence: UInt64 = 0
    var ids: [String: UInt64] = [:]

    mutating func add(
      _ user: UserKey, _ id: String, _ bytes: [UInt8], most: Int
    ) -> AppendResult {
      if let sequence = ids[id] { return .appended(sequence: sequence) }
      lastSequence += 1
      ids[id] = lastSequence
      messages[user, default: []].append(StoredRecord(sequence: lastSequence, bytes: bytes))
      if messages[user]?.count ?? 0 > most { messages[user]?.removeFirst() }
      if ids.count > Self.idsMax { ids = ids.filter { $0.value > lastSequence - Self.idsKept } }
      return .appended(sequence: lastSequence)
    }

    private static let idsMax = 20_000
    private static let idsKept: UInt64 = 10_000
  }

  private let core: InProcessCore
  private let options: HistoryOptions

  init(_ core: InProcessCore, _ options: HistoryOptions) {
    self.core = core
    self.options = options
  }

  public func create(followingLimits: Bool) async throws {}

  public func add(
    _ user: UserKey, id: String, _ bytes: [UInt8], completion: @escaping AppendCompletion
  ) {
    core.write(
      completion, fault: { $0.onHistory?(id) },
      body: { [core, options] _ in
        core.store.withLock {
          $0.histories.add(user, id, bytes, most: options.messagesPerUser)
        }
      })
  }

  public func messages(of user: UserKey) async throws -> [StoredRecord] {
    try await core.withStore { $0.histories.messages[user] ?? [] }
  }
}
