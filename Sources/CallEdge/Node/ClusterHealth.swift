internal import CallWire
internal import Synchronization

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

  /// The shards that nobody owns.
  var ownerless: [Int] {
    owned.withLock { owned in owned.indices.filter { !owned[$0] } }
  }
}
