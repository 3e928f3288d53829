internal import CallCore

/// Which coordinator should own a shard, and what this node does about it. Pure.
///
/// Rendezvous hashing: each node has a weight for each shard, the greatest owns it. A node that
/// comes takes only the shards for which it is the greatest; one that goes leaves only its own.
public enum Placement {
  /// The node that should own the shard; nil when there is none.
  public static func desired(shard: Int, candidates: some Sequence<String>) -> String? {
    var best: (node: String, weight: UInt64)?
    for node in candidates {
      let weight = ShardHash.weight(node: node, shard: shard)
      if let found = best, (found.weight, found.node) > (weight, node) { continue }
      best = (node, weight)
    }
    return best?.node
  }

  /// What stands in the lease, judged by whoever looks.
  public enum LeaseView: Sendable, Equatable {
    /// Nobody's: never claimed, released, or its owner is dead.
    case free
    /// This incarnation's.
    case own
    /// Of a node that may be at work.
    case other
  }

  public enum Decision: Sendable, Equatable {
    case claim
    case release
    /// Write the lease free: it is this node's, the shard is not.
    case yield
    case keep
  }

  /// - Parameters:
  ///   - holds: whether this node serves the shard.
  ///   - desired: the node that should have it.
  ///   - desiredServes: whether that node takes shards yet. One that starts is left its share, but
  ///     nothing is given up for it.
  ///   - standsIn: whether this node should have what lost its owner until that node serves.
  public static func decide(
    node: String, holds: Bool, desired: String?, desiredServes: Bool, lease: LeaseView,
    standsIn: Bool = false
  ) -> Decision {
    if holds { return desired != node && desiredServes ? .release : .keep }
    switch lease {
    case .free: return desired == node || standsIn ? .claim : .keep
    // An own lease without the shard: it was lost on the way (a refused append, a failed recovery).
    case .own: return desired == node ? .claim : .yield
    case .other: return .keep
    }
  }
}
