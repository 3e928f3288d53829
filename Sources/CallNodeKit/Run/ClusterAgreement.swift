package import CallBus
internal import CallWire

/// What is fixed for the life of a cluster is decided once, by its first coordinator, and kept in the
/// bus: users would be looked for in the wrong shards if two nodes counted differently.
package enum ClusterAgreement {
  package static let standardShardCount = 64
  package static let key = "cluster"

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

  /// The cluster's count, as it was decided; nil while nobody has.
  /// - Parameter wanted: what this node was told; nil takes what the cluster has.
  /// - Throws: `Mismatch`, `Unusable`, or what the bucket throws.
  package static func read(_ bucket: some KeyValueBucket, wanted: Int?, cluster: String)
    async throws -> Int?
  {
    guard let value = try await bucket.get(key)?.value else { return nil }
    let record: ClusterRecord
    do {
      record = try ClusterCodec.clusterRecord(value)
    } catch {
      throw unusable(cluster, "\(error); upgrade this node, or see whether the store is damaged")
    }
    guard record.cluster == cluster, (1...4096).contains(record.shardCount) else {
      throw unusable(
        cluster, "it names the cluster \"\(record.cluster)\" and \(record.shardCount) shards")
    }
    let agreed = Int(record.shardCount)
    if let wanted, wanted != agreed {
      throw Mismatch(wanted: wanted, cluster: cluster, agreed: agreed)
    }
    return agreed
  }

  /// The same; where nothing is decided yet, `wanted` or the standard becomes it. For coordinators.
  /// - Throws: `BusError.notReady`, too, where the record can neither be read nor written yet.
  package static func settle(_ bucket: some KeyValueBucket, wanted: Int?, cluster: String)
    async throws -> Int
  {
    var last = AppendResult.refused
    for _ in 0..<5 {
      if let agreed = try await read(bucket, wanted: wanted, cluster: cluster) { return agreed }
      let count = wanted ?? standardShardCount
      let record = ClusterRecord(cluster: cluster, shardCount: UInt32(count))
      let result = await withCheckedContinuation { continuation in
        bucket.put(key, ClusterCodec.encode(record), expecting: 0) {
          continuation.resume(returning: $0)
        }
      }
      if case .appended = result { return count }
      // Another node was faster, or we cannot tell: read again.
      last = result
    }
    // As a rule its stream has no leader yet, which is known at once.
    throw BusError.notReady("the record \"\(key)\" in the bucket \(cluster)-config: \(last)")
  }

  /// The same; where nothing is decided yet, waits until a coordinator has. For edges, which must
  /// not decide what they know nothing of.
  package static func await(
    _ bucket: some KeyValueBucket, wanted: Int?, cluster: String, waits: @Sendable () -> Void
  ) async throws -> Int {
    if let agreed = try await read(bucket, wanted: wanted, cluster: cluster) { return agreed }
    waits()
    let seen = Inbox<Void>(capacity: 1)
    let watch = try await bucket.watch(key) { _ in seen.offer(()) }
    defer { watch.cancel() }
    while true {
      if let agreed = try await read(bucket, wanted: wanted, cluster: cluster) { return agreed }
      // Also without word from the watch now and then: it may have been lost with a connection.
      _ = await seen.next(until: .now + .seconds(2))
      try Task.checkCancellation()
    }
  }

  private static func unusable(_ cluster: String, _ why: String) -> Unusable {
    Unusable(
      description: "the record \"\(key)\" in the bucket \(cluster)-config is not usable: \(why)")
  }
}
