package import CallCore

/// Decides which coordinator should own a shard, and what this node does for it. Pure.
///
/// Rendezvous hashing: each node has a weight for each shard, and the node with the greatest one should own it. So a
/// node that joins or leaves moves only the shards for which its weight is the greatest.
public enum Placement {
  /// The node that should own the shard; nil without candidates.
  public static func desired(shard: Int, candidates: some Sequence<String>) -> String? {
    var best: (node: String, weight: UInt64)?
    for node in candidates {
      let weight = ShardHash.weight(node: node, shard: shard)
      if let found = best, (found.weight, found.node) > (weight, node) { continue }
      best = (node, weight)
    }
    return best?.node
  }

  /// A lease, as this node sees it.
  public enum LeaseView: Sendable, Equatable {
    /// Never claimed, released, or of a dead owner.
    case free
    /// Held by this incarnation.
    case own
    /// Held by another node that may be alive.
    case other
  }

  public enum Decision: Sendable, Equatable {
    case claim
    case release
    /// Release the lease: this node has it without the shard.
    case yield
    case keep
  }

  /// - Parameters:
  ///   - holds: whether this node serves the shard.
  ///   - desired: the node that should have it.
  ///   - desiredServes: whether that node serves. For one that starts, shards are left free but not given up.
  ///   - standsIn: whether this node should take a shard that lost its owner until that node serves.
  public static func decide(
    node: String, holds: Bool, desired: String?, desiredServes: Bool, lease: LeaseView,
    standsIn: Bool = false
  ) -> Decision {
    if holds { return desired != node && desiredServes ? .release : .keep }
    switch lease {
    case .free: return desired == node || standsIn ? .claim : .keep
    // The shard was lost after the claim: an append was refused, or the recovery failed.
    case .own: return desired == node ? .claim : .yield
    case .other: return .keep
    }
  }
}

/// Limits how fast a coordinator hands shards over: `atOnce` at a time and, unless the node leaves, one per interval at
/// most, so that the calls of only a few shards wait at any moment. Pure.
///
/// A hand-over lasts until the next owner has recovered the shard: released faster than they are recovered, shards
/// would only wait without an owner.
package struct HandoverThrottle: Sendable {
  private struct HandOver {
    /// This node's epoch.
    var epoch: UInt64
    var isRecovered = false
    /// nil until this node has parted from the shard.
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

  /// Returns whether the release of a shard may begin now; it is then counted.
  package mutating func begin(_ term: ShardTerm, isLeaving: Bool, now: Timestamp) -> Bool {
    guard underWay.count < atOnce, isLeaving || next <= now else { return false }
    underWay[term.shard] = HandOver(epoch: term.epoch)
    next = now + interval
    return true
  }

  /// The node has parted from a shard.
  /// - Parameter until: how long to wait for its next owner; nil: not at all.
  package mutating func parted(_ shard: Int, waitsUntil until: Timestamp?) {
    guard let handOver = underWay[shard] else { return }
    if until == nil || handOver.isRecovered {
      underWay[shard] = nil
    } else {
      underWay[shard]!.waitsUntil = until
    }
  }

  /// An owner has recovered the shard, perhaps before this node has learnt that it parted.
  package mutating func recovered(_ term: ShardTerm) {
    guard let handOver = underWay[term.shard], handOver.epoch < term.epoch else { return }
    if handOver.waitsUntil == nil {
      underWay[term.shard]!.isRecovered = true
    } else {
      underWay[term.shard] = nil
    }
  }

  /// Ends the hand-overs whose next owner did not recover the shard in time.
  package mutating func expire(now: Timestamp) {
    for (shard, handOver) in underWay {
      if let until = handOver.waitsUntil, until <= now { underWay[shard] = nil }
    }
  }

  /// When to check again; nil if no time is waited for.
  package func waits(now: Timestamp) -> Timestamp? {
    let due = underWay.values.compactMap(\.waitsUntil).min()
    guard next > now else { return due }
    return min(due ?? next, next)
  }
}
