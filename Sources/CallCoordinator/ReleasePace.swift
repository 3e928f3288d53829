package import CallCore

/// How fast a coordinator gives shards away: so many at a time, and while it stays (it only gives a
/// newcomer its share) one per interval at most, so that the calls of few shards wait at any moment.
/// A node that leaves does not keep the interval. Pure.
package struct ReleasePace: Sendable {
  private let atOnce: Int
  private let interval: Span
  package private(set) var running = 0
  private var next = Timestamp(microseconds: 0)

  package init(atOnce: Int, interval: Span) {
    self.atOnce = atOnce
    self.interval = interval
  }

  /// Whether a release begins now; it is then counted.
  package mutating func begin(isLeaving: Bool, now: Timestamp) -> Bool {
    guard running < atOnce, isLeaving || next <= now else { return false }
    running += 1
    next = now + interval
    return true
  }

  package mutating func ended() { running -= 1 }

  /// When to look again, where the interval is what is waited for; else nil.
  package func waits(now: Timestamp) -> Timestamp? { next > now ? next : nil }
}
