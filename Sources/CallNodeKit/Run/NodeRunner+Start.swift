internal import CallBus
internal import CallCoordinator
internal import CallCore

extension NodeRunner {
  /// Returns the cluster's number of shards. The first coordinator decides on it.
  /// - Throws: `StartError` where the store cannot be read in time, `ClusterAgreement.Mismatch`,
  ///   `ClusterAgreement.Unusable`.
  func settleShardCount(_ bus: some ClusterBus, _ wait: StartWait) async throws -> Int {
    let retry = wait.retryPolicy(for: "the store", limit: configuration.startTimeout)
    let existing = configuration.existingBuckets
    do {
      let (wanted, cluster) = (configuration.shardCount, configuration.cluster)
      let name = Subjects(cluster: cluster, shardCount: 1).configurationBucket
      if roles.hasCoordinator {
        return try await retry {
          let bucket = try await bus.openBucket(name, configuration.buckets.small)
          return try await ClusterAgreement.settle(bucket, wanted: wanted, cluster: cluster)
        }
      }
      // An edge creates no buckets: it does not know how many replicas they need.
      let bucket = try await retry { try await bus.openBucket(name, existing) }
      let count = try await retry {
        try await ClusterAgreement.await(bucket, wanted: wanted, cluster: cluster) {
          wait.waits(for: "the cluster's first coordinator", "it decides on the number of shards")
        }
      }
      let leases = Subjects(cluster: cluster, shardCount: count).leaseBucket
      _ = try await retry { try await bus.openBucket(leases, existing) }
      return count
    } catch let error as BusError {
      throw StartError.failure(
        """
        the cluster's configuration cannot be read: \(error).
          Does a coordinator run, is JetStream on (nats-server -js), and has it room? With \
        --journal-replicas \(configuration.buckets.replicas) it needs as many NATS servers.
        """)
    }
  }

  /// Returns the error as operators see it, with the exit status.
  func startError(_ error: any Error) -> StartError {
    let text = "\(error)"
    if text.hasPrefix("bind(") {
      // This is the operators' port: an edge reports a failure of its own port itself.
      return .failure(
        """
        the operators' port \(configuration.metricsPort) of \(configuration.metricsHost) cannot be \
        listened on: \(text).
          Is another process there? Another port: --metrics-port; another address: --metrics-host.
        """)
    }
    return switch error {
    case let error as StartError: error
    case let error as ClusterAgreement.Mismatch: .configuration(error)
    case CoordinatorError.store: .failure(text)
    case let error as CoordinatorError: .configuration(error)
    case let error as ConfigurationError: .configuration(error)
    default: .failure(text)
    }
  }
}
