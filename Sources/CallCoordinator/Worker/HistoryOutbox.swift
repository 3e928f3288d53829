internal import CallBus
package import CallCore

/// The ended calls of a worker's shards whose entries are to be added to histories. Each entry is a message of its own;
/// many are under way at a time.
///
/// It holds ids only: the entries are made when they are sent. A message is repeated as it is, under the same id, until
/// the store has it, so that the store drops repetitions. A call is done once the shards of its users know of the
/// entries as well. The number of calls is limited by what the shards keep (`CallLimits.callsPerShard`,
/// `CallLimits.unrecordedCalls`): see `compact`.
package struct HistoryOutbox {
  package typealias Item = ShardCall

  /// An entry on its way to a user's history.
  package struct Message: Sendable, Equatable {
    package var number: UInt64
    package var item: Item
    package var user: UserKey
    package var entry: HistoryEntry

    /// Every owner gives an entry the same id, and no other entry has it: the store drops an entry whose id it knows. A
    /// call's id would not do, since calls of other users may have the same one.
    package var id: String {
      let owner = "\(Subjects.keyPart(user.app)).\(Subjects.keyPart(user.user))"
      return "\(owner)-\(entry.call)-\(entry.placedAt.milliseconds)"
    }
  }

  private let atOnce: Int
  private var waiting: [Item] = []
  private var compactAt = RecordOutbox.compactLeast
  private var flights: [UInt64: Message] = [:]
  /// Messages to be sent again.
  private var repeats: [Message] = []
  /// How many entries of a call the store does not have, or the user's shard does not know of.
  private var open: [Item: Int] = [:]
  private var failures = 0
  /// Nothing is sent before, because the store failed.
  private var pausedUntil = Timestamp(microseconds: 0)
  private var lastNumber: UInt64 = 0

  package init(atOnce: Int) { self.atOnce = atOnce }

  /// Calls that wait.
  package var count: Int { waiting.count + open.count }

  /// When `next` has something.
  package var nextDeadline: Timestamp {
    guard flights.count < atOnce, !waiting.isEmpty || !repeats.isEmpty else {
      return .distantFuture
    }
    return pausedUntil
  }

  package mutating func add(_ item: Item) { waiting.append(item) }

  /// Drops those whose calls are forgotten or have another owner, if many wait.
  package mutating func compact(_ isWanted: (Item) -> Bool) {
    guard waiting.count >= compactAt else { return }
    waiting.removeAll { !isWanted($0) }
    compactAt = max(RecordOutbox.compactLeast, 2 * waiting.count)
  }

  /// The messages that are due, to be sent now.
  /// - Parameter entries: returns the entries of a call; empty where none are wanted.
  package mutating func next(
    now: Timestamp, entries: (Item) -> [(user: UserKey, entry: HistoryEntry)]
  ) -> [Message] {
    guard pausedUntil <= now else { return [] }
    var due: [Message] = []
    while flights.count < atOnce, let message = repeats.popLast() {
      flights[message.number] = message
      due.append(message)
    }
    var taken = 0
    while taken < waiting.count, flights.count < atOnce {
      let item = waiting[taken]
      taken += 1
      // A call whose entries are under way is not begun again.
      guard open[item] == nil else { continue }
      for (user, entry) in entries(item) {
        lastNumber += 1
        let message = Message(number: lastNumber, item: item, user: user, entry: entry)
        flights[lastNumber] = message
        open[item, default: 0] += 1
        due.append(message)
      }
    }
    waiting.removeFirst(taken)
    return due
  }

  /// The store has answered, or has not in time.
  /// - Returns: an entry that is stored. The caller notifies its user's shard, then calls `notified`.
  package mutating func answered(_ number: UInt64, isStored: Bool, now: Timestamp) -> Message? {
    guard let message = flights.removeValue(forKey: number) else { return nil }
    guard isStored else {
      repeats.append(message)
      // Messages that were under way together fail together.
      if pausedUntil <= now {
        pausedUntil = now + RecordOutbox.backoff.pause(after: failures)
        failures += 1
      }
      return nil
    }
    failures = 0
    return message
  }

  /// Notes that a user's shard knows of an entry of the call, or is no longer notified. Call it once for each entry
  /// that is stored.
  /// - Returns: whether that was the last one.
  package mutating func notified(_ item: Item) -> Bool {
    guard let count = open[item] else { return false }
    open[item] = count > 1 ? count - 1 : nil
    return count == 1
  }
}
