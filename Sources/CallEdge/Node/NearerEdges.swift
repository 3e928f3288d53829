package import CallCore
internal import Synchronization

/// Which edges are in one process with the owners of shards. The owners say so when they request sessions.
package final class NearerEdges: Sendable {
  private struct Owner {
    var epoch: UInt64
    /// Empty: devices are not to be sent anywhere.
    var address: String
  }
  private let owners: Mutex<[Owner]>
  /// This edge's own address: devices that are here are not sent here.
  private let own: String

  package static let addressBytesMax = 256

  package init(own: String, shardCount: Int) {
    self.own = own
    owners = Mutex(Array(repeating: Owner(epoch: 0, address: ""), count: shardCount))
  }

  /// The address that is nearer to a user's calls; empty: this edge is as good.
  package func address(for user: UserKey) -> String {
    owners.withLock { $0[ShardHash.shard(of: user, count: $0.count)].address }
  }

  /// Stores the address that a shard's owner announces.
  /// - Returns: whether it changed for the devices, which then need a notice.
  package func note(shard: Int, epoch: UInt64, _ address: String) -> Bool {
    let address = address == own || !Self.isAcceptable(address) ? "" : address
    return owners.withLock { owners in
      guard owners.indices.contains(shard), owners[shard].epoch <= epoch else { return false }
      let former = owners[shard].address
      owners[shard] = Owner(epoch: epoch, address: address)
      return former != address
    }
  }

  /// Devices check more than this.
  package static func isAcceptable(_ address: String) -> Bool {
    (address.hasPrefix("wss://") || address.hasPrefix("ws://"))
      && address.utf8.count <= addressBytesMax && address.utf8.allSatisfy { 33...126 ~= $0 }
  }
}
