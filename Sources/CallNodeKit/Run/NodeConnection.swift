internal import CallBus
internal import CallTelemetry
internal import Logging
internal import NATSBus

extension NATSBus {
  /// Connects a node. Waits where no server can be reached, since servers start at the same time and may
  /// be away for a moment; a server that refuses the node ends it.
  /// - Throws: `StartError`.
  static func connect(
    _ configuration: NodeConfiguration, role: String, wait: StartWait, watch: BusWatch,
    _ logger: Logger
  ) async throws -> NATSBus {
    // The number of shards is not known yet; streams and buckets are named without it.
    var options = NATSOptions(subjects: Subjects(cluster: configuration.cluster, shardCount: 1))
    options.access = configuration.natsAccess
    options.role = role
    options.onEvent = { event in
      log(event, logger)
      if case .failure(let text) = event { watch.failed(text) }
      if event == .closed { watch.hasClosed() }
    }
    let shown = NATSURL.withoutCredentials(configuration.natsURL)
    if !configuration.natsAccess.demandsTLS(of: configuration.natsURL),
      NATSURL.leavesTheMachine(configuration.natsURL)
    {
      logger.warning(
        "What this node sends to NATS, its password included, crosses the network as clear text.",
        metadata: .keys([.nats: "\(shown)"]))
    }
    let retry = wait.retryPolicy(for: "NATS", at: shown, limit: configuration.startTimeout)
    do {
      return try await retry { [options] in
        try await NATSBus.connect(
          url: configuration.natsURL, name: configuration.nodeID, options: options)
      }
    } catch let error as BusError where error.isTransient {
      throw StartError.failure(
        """
        NATS at \(shown) cannot be reached: \(error).
          --nats-url or CALLMESH_NATS_URL says where it is; for a first try: nats-server -js
        """)
    } catch let error as BusError {
      throw StartError.failure(
        """
        NATS at \(shown) does not take this node: \(error).
          natsUser and natsPasswordFile, or natsCredentials, say who it is; natsCA, natsCertificate and \
        natsKey are for TLS (docs/operations.md).
        """)
    }
  }

  private static func log(_ event: NATSEvent, _ logger: Logger) {
    switch event {
    case .connected(let server):
      logger.info("bus connected", metadata: .keys([.nats: "\(server)"]))
    case .disconnected:
      logger.warning("bus disconnected")
    case .reconnected(let server):
      logger.notice("bus connected again", metadata: .keys([.nats: "\(server)"]))
    case .closed:
      logger.info("bus closed")
    case .failure(let text):
      logger.warning("bus reports", metadata: .keys([.error: "\(text)"]))
    }
  }
}
