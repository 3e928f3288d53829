/// How many jobs a taker has asked for, and how many it has and did not settle: together never more
/// than it may have. A value; the time is an argument.
///
/// One question stands at a time, since a job that comes does not say for which it does.
package struct PullCredit {
  package typealias Instant = ContinuousClock.Instant

  private struct Pull {
    var number: UInt64
    /// How many jobs may still come for it.
    var remaining: Int
    /// It is taken for lost when nothing is heard of it before.
    var silentAt: Instant
    /// When the server ends it.
    var endsAt: Instant
  }

  private let inFlight: Int
  private let silence: Duration
  private let settleWithin: Duration
  private var standing: Pull?
  /// Jobs that are with us, by number, and when the server hands them out again.
  private var unsettled: [UInt64: Instant] = [:]
  private var lastPull: UInt64 = 0
  private var lastItem: UInt64 = 0
  private var nextLook: Instant?

  /// - Parameter silence: a question of which nothing is heard for so long is taken for lost.
  package init(inFlight: Int, silence: Duration, settleWithin: Duration) {
    self.inFlight = inFlight
    self.silence = silence
    self.settleWithin = settleWithin
  }

  /// How many to ask for; nil while a question stands, or while there is no room.
  package mutating func pull(now: Instant, lasts: Duration) -> (number: UInt64, batch: Int)? {
    let room = inFlight - unsettled.count
    guard standing == nil, room > 0 else { return nil }
    lastPull += 1
    standing = Pull(
      number: lastPull, remaining: room, silentAt: now + silence, endsAt: now + lasts + silence)
    look(at: now + silence)
    return (lastPull, room)
  }

  /// A job came. Returns its number.
  package mutating func arrived(now: Instant) -> UInt64 {
    if var pull = standing {
      pull.remaining -= 1
      pull.silentAt = now + silence
      standing = pull.remaining > 0 ? pull : nil
    }
    lastItem += 1
    unsettled[lastItem] = now + settleWithin
    look(at: now + settleWithin)
    return lastItem
  }

  /// The server says that the question stands.
  package mutating func heard(_ number: UInt64, now: Instant) {
    let until = now + silence
    if standing?.number == number { standing?.silentAt = until }
  }

  /// The server ended a question.
  package mutating func ended(_ number: UInt64) {
    if standing?.number == number { standing = nil }
  }

  /// The connection broke, or the consumer is gone: nothing that was asked for will come.
  package mutating func forgetPull() { standing = nil }

  /// True the first time, and while the server still takes the job for ours.
  package mutating func settled(_ item: UInt64) -> Bool {
    unsettled.removeValue(forKey: item) != nil
  }

  package mutating func working(_ item: UInt64, now: Instant) -> Bool {
    guard unsettled[item] != nil else { return false }
    unsettled[item] = now + settleWithin
    return true
  }

  /// Forgets the question of which nothing was heard, and the jobs that the server has given to
  /// somebody else by now.
  package mutating func expire(now: Instant) {
    guard let next = nextLook, next <= now else { return }
    nextLook = nil
    if let pull = standing {
      let end = min(pull.silentAt, pull.endsAt)
      if end <= now { standing = nil } else { look(at: end) }
    }
    for (item, end) in unsettled {
      if end <= now { unsettled[item] = nil } else { look(at: end) }
    }
  }

  /// When to call `expire` again.
  package var deadline: Instant? { nextLook }

  private mutating func look(at time: Instant) { nextLook = min(nextLook ?? time, time) }
}
