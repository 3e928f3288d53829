package import CallBus
internal import CallWire

/// The number of shards, which the first coordinator of a cluster decides and stores in the bus. It is fixed
/// for the life of the cluster: nodes that disagree would look for users in the wrong shards.
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
      cluster "\(cluster)" was created with \(agreed) shards, this node is set to \(wanted).
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

  /// Returns the cluster's number of shards; nil while no coordinator has decided.
  /// - Parameter wanted: this node's setting; nil accepts any.
  /// - Throws: `Mismatch`, `Unusable`, or what the bucket throws.
  package static func read(_ bucket: some KeyValueBucket, wanted: Int?, cluster: String)
    async throws -> Int?
  {
    try agreed(try await bucket.get(key), wanted: wanted, cluster: cluster)
  }

  private static func agreed(_ entry: KeyValueEntry?, wanted: Int?, cluster: String) throws -> Int?
  {
    guard let value = entry?.value else { return nil }
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

  /// As `read`, for coordinators: where nothing is decided yet, decides on `wanted` or the default.
  /// - Throws: as `read`; also `BusError.notReady` where the record can neither be read nor written yet.
  package static func settle(_ bucket: some KeyValueBucket, wanted: Int?, cluster: String)
    async throws -> Int
  {
    var count = wanted ?? standardShardCount
    let failure = try await bucket.update(key) { entry in
      if let agreed = try agreed(entry, wanted: wanted, cluster: cluster) {
        count = agreed
        return nil
      }
      return ClusterCodec.encode(ClusterRecord(cluster: cluster, shardCount: UInt32(count)))
    }
    guard let failure else { return count }
    // Usually the bucket's stream has no leader yet, which the server reports at once.
    throw BusError.notReady("the record \"\(key)\" in the bucket \(cluster)-config: \(failure)")
  }

  /// As `read`, for edges, which do not decide: waits until a coordinator has decided.
  /// - Throws: as `read`.
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
      // Polls as well: a notification of the watch may be lost with a connection.
      _ = await seen.next(until: .now + .seconds(2))
      try Task.checkCancellation()
    }
  }

  private static func unusable(_ cluster: String, _ why: String) -> Unusable {
    Unusable(
      description: "the record \"\(key)\" in the bucket \(cluster)-config is not usable: \(why)")
  }
}
