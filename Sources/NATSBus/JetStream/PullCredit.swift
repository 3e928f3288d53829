/// The credit of a pull consumer: the jobs that it has requested and those that it has not settled are together never
/// more than its limit. A value; the time is an argument.
///
/// One pull request is open at a time, since a job does not show to which one it belongs.
package struct PullCredit {
  package typealias Instant = ContinuousClock.Instant

  private struct Pull {
    var number: UInt64
    /// How many jobs may still arrive for it.
    var remaining: Int
    /// When it counts as lost, unless a message arrives before.
    var silentAt: Instant
    /// When the server ends it.
    var endsAt: Instant
  }

  private let inFlight: Int
  private let silence: Duration
  private let settleWithin: Duration
  private var open: Pull?
  /// Unsettled jobs, by number, and when the server redelivers them.
  private var unsettled: [UInt64: Instant] = [:]
  private var lastPull: UInt64 = 0
  private var lastItem: UInt64 = 0
  private var nextLook: Instant?

  /// - Parameter silence: the time without a message after which a pull request counts as lost.
  package init(inFlight: Int, silence: Duration, settleWithin: Duration) {
    self.inFlight = inFlight
    self.silence = silence
    self.settleWithin = settleWithin
  }

  /// How many jobs to request; nil while a request is open, or without room.
  package mutating func pull(now: Instant, lasts: Duration) -> (number: UInt64, batch: Int)? {
    let room = inFlight - unsettled.count
    guard open == nil, room > 0 else { return nil }
    lastPull += 1
    open = Pull(
      number: lastPull, remaining: room, silentAt: now + silence, endsAt: now + lasts + silence)
    look(at: now + silence)
    return (lastPull, room)
  }

  /// A job arrived. Returns its number.
  package mutating func arrived(now: Instant) -> UInt64 {
    if var pull = open {
      pull.remaining -= 1
      pull.silentAt = now + silence
      open = pull.remaining > 0 ? pull : nil
    }
    lastItem += 1
    unsettled[lastItem] = now + settleWithin
    look(at: now + settleWithin)
    return lastItem
  }

  /// A heartbeat of a pull request.
  package mutating func extended(_ number: UInt64, now: Instant) {
    let until = now + silence
    if open?.number == number { open?.silentAt = until }
  }

  /// The server ended a pull request.
  package mutating func ended(_ number: UInt64) {
    if open?.number == number { open = nil }
  }

  /// The connection broke, or the consumer is gone: the pull request is lost.
  package mutating func forgetPull() { open = nil }

  /// Returns true the first time, unless the server has redelivered the job.
  package mutating func settled(_ item: UInt64) -> Bool {
    unsettled.removeValue(forKey: item) != nil
  }

  package mutating func inProgress(_ item: UInt64, now: Instant) -> Bool {
    guard unsettled[item] != nil else { return false }
    unsettled[item] = now + settleWithin
    return true
  }

  /// Drops a lost pull request, and jobs that the server has redelivered.
  package mutating func expire(now: Instant) {
    guard let next = nextLook, next <= now else { return }
    nextLook = nil
    if let pull = open {
      let end = min(pull.silentAt, pull.endsAt)
      if end <= now { open = nil } else { look(at: end) }
    }
    for (item, end) in unsettled {
      if end <= now { unsettled[item] = nil } else { look(at: end) }
    }
  }

  /// When to call `expire` again.
  package var deadline: Instant? { nextLook }

  private mutating func look(at time: Instant) { nextLook = min(nextLook ?? time, time) }
}
