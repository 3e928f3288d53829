internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Which shards this node should own, and what it does for them.
extension ShardManager {
  /// Tells who holds a lease, as far as this node knows.
  func view(_ lease: Lease?, now: Timestamp) -> Placement.LeaseView {
    guard let lease, !lease.released else { return .free }
    if lease.owner == configuration.nodeID {
      if lease.incarnation == incarnation { return .own }
      guard let namesake, namesake.incarnation == lease.incarnation else { return .free }
      return now < namesake.lastSeen + configuration.leaseTimeout ? .other : .free
    }
    let isAlive = membership.isLiving(owner: lease.owner, incarnation: lease.incarnation)
    return isAlive ? .other : .free
  }

  /// Recomputes the owners that all shards should have.
  func place() {
    let candidates = candidates()
    for shard in shards.indices { place(shard, candidates) }
  }

  func placeAnew(_ shard: Int) { place(shard, candidates()) }

  private func candidates() -> [(node: String, incarnation: UInt64)] {
    var candidates = membership.coordinators.values
      .filter { $0.state == .starting || $0.state == .serving }
      .map { ($0.node, $0.incarnation) }
    if state != .leaving { candidates.append((configuration.nodeID, incarnation)) }
    return candidates
  }

  private func place(_ shard: Int, _ candidates: [(node: String, incarnation: UInt64)]) {
    let refused = shards[shard].record.lease?.refusedBy ?? []
    var able = candidates
    if !refused.isEmpty {
      able.removeAll { refused.contains($0.incarnation) }
      // If no node can read the shard, the one that should own it retries.
      if able.isEmpty { able = candidates }
    }
    shards[shard].desired = Placement.desired(shard: shard, candidates: able.map(\.node))
  }

  /// Starts what placement and leases demand, as far as the limits allow.
  func evaluate(now: Timestamp) {
    guard state != .starting else { return }
    for shard in shards.indices { evaluate(shard, now: now) }
  }

  private func evaluate(_ shard: Int, now: Timestamp) {
    // Nearly all of a node's shards, twice a second.
    if case .serving = shards[shard].hold, shards[shard].desired == configuration.nodeID { return }
    let entry = shards[shard]
    var holds = false
    switch entry.hold {
    case .claiming, .releasing, .yielding: return
    case .serving: holds = true
    case .stopped:
      if entry.record.unreadable != nil { return }
      if entry.desired != configuration.nodeID { unstop(shard) }
      if entry.retryAt > now { return }
    case .none:
      if entry.isStopped, entry.desired != configuration.nodeID { unstop(shard) }
      if let reason = entry.record.unreadable {
        return stop(shard, ShardClaim.Unreadable(.lease, reason), now: now)
      }
    }
    let serves = successorServes(shard)
    let lease = view(entry.record.lease, now: now)
    let decision = Placement.decide(
      node: configuration.nodeID, holds: holds, desired: entry.desired,
      desiredServes: serves || state == .leaving, lease: lease,
      standsIn: !serves && lease == .free && standsIn(entry.record.lease, shard))
    switch decision {
    case .keep: return
    case .claim: startClaim(shard, now: now)
    case .release:
      startRelease(
        shard, deadline: min(now + configuration.releaseTimeout, shutdownDeadline), now: now)
    case .yield: startYield(shard, now: now)
    }
  }

  /// Whether another coordinator should own the shard, and serves.
  func successorServes(_ shard: Int) -> Bool {
    shards[shard].desired.flatMap { membership.coordinators[$0]?.state } == .serving
  }

  /// Whether this node takes a shard until the node that should own it serves. It does if the owner died, since calls
  /// ring there. A shard that was never owned, or was released, waits, so that nodes which start together share the
  /// shards from the start.
  private func standsIn(_ lease: Lease?, _ shard: Int) -> Bool {
    guard state == .serving, let lease, !lease.released, lease.refusedBy.isEmpty else {
      return false
    }
    let serving = membership.coordinators.values.filter { $0.state == .serving }.map(\.node)
    return Placement.desired(shard: shard, candidates: serving + [configuration.nodeID])
      == configuration.nodeID
  }
}
