internal import CallBus
internal import CallTelemetry
internal import Logging
internal import NATSBus
internal import ServiceLifecycle
internal import Synchronization

extension NATSBus {
  /// Connects a node. Retries while no server can be reached, since servers may start at the same time or restart.
  /// A server that refuses the node ends the wait.
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

/// Ends a node whose bus is closed for good.
///
/// The library reconnects without a time limit, but gives up when the server refuses the node twice, as it does after
/// the credentials have changed. The node would then run on without a connection to the cluster. Instead it ends with
/// an error, and its supervisor starts it again.
package final class BusWatch: Service {
  private let closed = Inbox<Never>(capacity: 1)
  /// The error that the bus reported last.
  private let reason = Mutex("")
  private let report: @Sendable (_ reason: String) -> Void

  /// - Parameter report: is called with the reason when the node ends.
  package init(report: @escaping @Sendable (_ reason: String) -> Void) { self.report = report }

  /// The bus reports an error; it may recover.
  package func failed(_ text: String) { reason.withLock { $0 = text } }

  /// The bus is closed, by the node itself or for good.
  package func hasClosed() { closed.close() }

  /// - Throws: `StartError` where the bus is closed before the node shuts down.
  package func run() async throws {
    do {
      let isShutDown: Void? = try await closed.unlessClosed { try await gracefulShutdown() }
      guard isShutDown == nil, closed.isClosed else { return }
    } catch is CancellationError {
      return
    }
    let reason = reason.withLock { $0 }
    report(reason)
    throw StartError.failure(
      """
      NATS has ended the connection for good\(reason.isEmpty ? "" : ": \(reason)").
        Have the credentials changed? natsUser and natsPasswordFile, or natsCredentials, say who this \
      node is.
      """)
  }
}
