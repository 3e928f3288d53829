package import CallCore

/// Pushes of a worker that wait for the number of unread missed calls that they are to show.
///
/// The pushes of a user that one turn decides share a read of the user's history. No push waits for longer than
/// `waitMax`; then it is sent without a number. Policy at the limit: it is sent without one at once.
package struct UnreadReads {
  package struct Push: Sendable, Equatable {
    package var term: ShardTerm
    package var job: PushJob
    /// Counted although the store may lack them (`UnreadQuestion`).
    package var missed: [PlacedCall]
    package init(term: ShardTerm, job: PushJob, missed: [PlacedCall]) {
      self.term = term
      self.job = job
      self.missed = missed
    }
  }

  /// A read of a user's history that is to begin.
  package struct Read: Sendable, Equatable {
    package var number: UInt64
    package var user: UserKey
  }

  private struct Group {
    var user: UserKey
    var until: Timestamp
    var pushes: [Push]
  }

  /// How long a push waits at most. A read takes a few milliseconds.
  package static let waitMax = Span.milliseconds(300)

  private let atOnce: Int
  private let pushesMax: Int
  private var groups: [UInt64: Group] = [:]
  /// The groups in their order, which is that of their deadlines. The first one still waits.
  private var order: [UInt64] = []
  /// The groups whose reads have not begun, in their order.
  private var unbegun: [UInt64] = []
  /// The groups of `unbegun`, by user. A push that is decided after a read began needs another one.
  private var joinable: [UserKey: UInt64] = [:]
  private var underWay: Set<UInt64> = []
  private var lastNumber: UInt64 = 0
  /// Pushes that wait.
  package private(set) var count = 0

  package init(atOnce: Int, pushesMax: Int) {
    self.atOnce = atOnce
    self.pushesMax = pushesMax
  }

  /// When `expired` has something.
  package var nextDeadline: Timestamp {
    order.first.flatMap { groups[$0]?.until } ?? .distantFuture
  }

  /// - Returns: false if it must be sent without a number.
  package mutating func add(_ push: Push, of user: UserKey, now: Timestamp) -> Bool {
    guard count < pushesMax else { return false }
    count += 1
    if let number = joinable[user] {
      groups[number]?.pushes.append(push)
      return true
    }
    lastNumber += 1
    groups[lastNumber] = Group(user: user, until: now + Self.waitMax, pushes: [push])
    order.append(lastNumber)
    unbegun.append(lastNumber)
    joinable[user] = lastNumber
    return true
  }

  /// The next read to begin; nil where none is, or enough are under way.
  package mutating func next() -> Read? {
    guard underWay.count < atOnce, let number = unbegun.first, let group = groups[number] else {
      return nil
    }
    unbegun.removeFirst()
    joinable[group.user] = nil
    underWay.insert(number)
    return Read(number: number, user: group.user)
  }

  /// A read has ended.
  /// - Returns: the pushes that wait for it; none if they were sent without a number.
  package mutating func ended(_ number: UInt64) -> [Push] {
    underWay.remove(number)
    return removeGroup(number)
  }

  /// The pushes that have waited for too long.
  package mutating func expired(now: Timestamp) -> [Push] {
    var pushes: [Push] = []
    while let number = order.first, let group = groups[number], group.until <= now {
      if joinable[group.user] == number { joinable[group.user] = nil }
      if unbegun.first == number { unbegun.removeFirst() }
      pushes += removeGroup(number)
    }
    return pushes
  }

  /// The pushes of a shard that is given to another owner. That one does not wait for them.
  package mutating func leave(_ term: ShardTerm) -> [Push] {
    var left: [Push] = []
    for number in order {
      guard let pushes = groups[number]?.pushes.filter({ $0.term == term }), !pushes.isEmpty else {
        continue
      }
      groups[number]?.pushes.removeAll { $0.term == term }
      count -= pushes.count
      left += pushes
    }
    return left
  }

  private mutating func removeGroup(_ number: UInt64) -> [Push] {
    guard let group = groups.removeValue(forKey: number) else { return [] }
    while let first = order.first, groups[first] == nil { order.removeFirst() }
    count -= group.pushes.count
    return group.pushes
  }
}
