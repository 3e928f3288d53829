package import CallCore

/// How fast a coordinator gives shards away: so many at a time, and while it stays (it only gives a
/// newcomer its share) one per interval at most, so that the calls of few shards wait at any moment.
/// A node that leaves does not keep the interval. Pure.
///
/// A shard is on its way until its next owner has read it back. One that gave shards up faster than they
/// are read back would only let them queue where nobody serves them.
package struct HandoverThrottle: Sendable {
  private struct HandOver {
    /// The former owner's.
    var epoch: UInt64
    var isRecovered = false
    /// nil until it has parted.
    var waitsUntil: Timestamp?
  }

  private let atOnce: Int
  private let interval: Span
  private var underWay: [Int: HandOver] = [:]
  private var next = Timestamp(microseconds: 0)

  package init(atOnce: Int, interval: Span) {
    self.atOnce = atOnce
    self.interval = interval
  }

  package var running: Int { underWay.count }

  /// Whether the release of a shard begins now; it is then counted.
  package mutating func begin(_ term: ShardTerm, isLeaving: Bool, now: Timestamp) -> Bool {
    guard underWay.count < atOnce, isLeaving || next <= now else { return false }
    underWay[term.shard] = HandOver(epoch: term.epoch)
    next = now + interval
    return true
  }

  /// The shard is not this node's any more.
  /// - Parameter until: how long its next owner is waited for; nil: there is none, or it was there first.
  package mutating func parted(_ shard: Int, waitsUntil until: Timestamp?) {
    guard let handOver = underWay[shard] else { return }
    if until == nil || handOver.isRecovered {
      underWay[shard] = nil
    } else {
      underWay[shard]!.waitsUntil = until
    }
  }

  /// An owner has read the shard back; perhaps before this node knows that it parted.
  package mutating func recovered(_ term: ShardTerm) {
    guard let handOver = underWay[term.shard], handOver.epoch < term.epoch else { return }
    if handOver.waitsUntil == nil {
      underWay[term.shard]!.isRecovered = true
    } else {
      underWay[term.shard] = nil
    }
  }

  /// Forgets those whose next owner was waited for in vain.
  package mutating func expire(now: Timestamp) {
    for (shard, handOver) in underWay {
      if let until = handOver.waitsUntil, until <= now { underWay[shard] = nil }
    }
  }

  /// When to look again, where time is what is waited for; else nil.
  package func waits(now: Timestamp) -> Timestamp? {
    let due = underWay.values.compactMap(\.waitsUntil).min()
    guard next > now else { return due }
    return min(due ?? next, next)
  }
}
