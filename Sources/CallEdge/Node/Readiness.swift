internal import CallWire
internal import Synchronization

/// Whether a node can serve, as `/readyz` on the operators' port reports it.
public struct Readiness: Sendable, Equatable {
  /// The missing conditions, as sentences.
  public var missing: [String]
  /// At most the first 32 of them.
  public var shardsWithoutOwner: [Int]

  public init(missing: [String] = [], shardsWithoutOwner: [Int] = []) {
    self.missing = missing
    self.shardsWithoutOwner = shardsWithoutOwner
  }

  public var isReady: Bool { missing.isEmpty }
}

extension EdgeNode {
  /// Whether devices should be sent here.
  public var readiness: Readiness {
    var missing: [String] = []
    switch phase {
    case .starting: missing.append("the edge starts")
    case .draining, .drained: missing.append("the edge drains")
    case .cutOff: missing.append("the cluster does not answer the edge")
    case .serving: break
    }
    if !shared.isBusConnected() { missing.append("the bus is not connected") }
    let ownerless = shared.health.ownerless
    if !ownerless.isEmpty { missing.append("\(ownerless.count) shards have no owner") }
    return Readiness(missing: missing, shardsWithoutOwner: Array(ownerless.prefix(32)))
  }
}

/// Which shards have an owner, by their leases in the bucket.
final class ClusterHealth: Sendable {
  private let owned: Mutex<[Bool]>

  init(shardCount: Int) {
    owned = Mutex(Array(repeating: false, count: shardCount))
  }

  /// - Parameter lease: nil where the key was deleted or could not be read.
  func update(shard: Int, lease: Lease?) {
    owned.withLock {
      guard $0.indices.contains(shard) else { return }
      $0[shard] = lease.map { !$0.released } ?? false
    }
  }

  /// The shards without an owner.
  var ownerless: [Int] {
    owned.withLock { owned in owned.indices.filter { !owned[$0] } }
  }
}
