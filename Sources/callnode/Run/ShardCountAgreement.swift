package import CallBus
internal import Synchronization

/// The number of shards is decided once for a cluster, by its first node, and kept in the bus: users
/// would be looked for in the wrong shards if two nodes counted differently.
package enum ShardCountAgreement {
  package static let standard = 64
  package static let key = "shardCount"

  package struct Mismatch: Error, Equatable, CustomStringConvertible {
    package var wanted: Int
    package var cluster: String
    package var agreed: Int

    package init(wanted: Int, cluster: String, agreed: Int) {
      self.wanted = wanted
      self.cluster = cluster
      self.agreed = agreed
    }

    package var description: String {
      """
      cluster "\(cluster)" was created with \(agreed) shards, this node is told \(wanted).
        The number is fixed for the life of a cluster, since it decides where each user's calls \
      and registrations are.
        Leave shardCount out or set it to \(agreed) (--shard-count, CALLMESH_SHARD_COUNT, or the \
      file), or give a new cluster another name with --cluster.
      """
    }
  }

  package struct Unusable: Error, Equatable, CustomStringConvertible {
    package var description: String
  }

  /// The cluster's count; where it has none yet, `wanted` or the standard becomes it.
  /// - Parameter wanted: what this node was told; nil takes what the cluster has.
  /// - Throws: `Mismatch`, `Unusable`, or what the bucket throws.
  package static func settle(_ bucket: some KeyValueBucket, wanted: Int?, cluster: String)
    async throws -> Int
  {
    for _ in 0..<5 {
      if let entry = try await bucket.get(key), let value = entry.value {
        let text = String(decoding: value, as: UTF8.self)
        guard let agreed = Int(text), (1...4096).contains(agreed) else {
          throw Unusable(
            description: "the bucket \(cluster)-config holds no usable shardCount (\"\(text)\"); "
              + "the cluster's data may be damaged or of another version")
        }
        if let wanted, wanted != agreed {
          throw Mismatch(wanted: wanted, cluster: cluster, agreed: agreed)
        }
        return agreed
      }
      let count = wanted ?? standard
      let result = await withCheckedContinuation { continuation in
        bucket.put(key, Array("\(count)".utf8), expecting: 0) { continuation.resume(returning: $0) }
      }
      switch result {
      case .appended: return count
      case .refused, .unknown: continue  // Another node was faster, or we cannot tell: read again.
      }
    }
    throw Unusable(description: "the bucket \(cluster)-config does not take a shard count")
  }
}
