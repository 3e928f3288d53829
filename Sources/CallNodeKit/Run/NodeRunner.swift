internal import CallAuth
internal import CallBus
internal import CallCoordinator
internal import CallCore
internal import CallEdge
internal import CallPush
internal import CallTelemetry
internal import Logging
internal import NIOCore
internal import ServiceLifecycle

/// Connects a process to the bus, builds its roles and runs them until they are asked to stop.
///
/// The order at start: connect; agree on the number of shards; follow the cluster's keys and
/// revocations; read the files of keys; start the coordinator, the push gateway, the operators' port and the edge.
/// Services stop in the reverse order, so that devices leave before the shards do; the bus closes last.
struct NodeRunner {
  var inputs: NodeInputs
  var roles: NodeRoles
  var logger: Logger

  var configuration: NodeConfiguration { inputs.configuration }

  /// - Parameters:
  ///   - connect: makes the bus, and reports delays to `StartWait`.
  ///   - busName: the name of the bus in the log.
  ///   - beside: services that run beside the roles. When one of them ends, all do.
  /// - Throws: `StartError`.
  func run<Bus: ClusterBus>(
    on connect: @Sendable @escaping (StartWait) async throws -> Bus, busName: String,
    beside: [any Service] = [], _ watch: SignalWatch
  ) async throws {
    let wait = StartWait(
      host: configuration.metricsHost, port: configuration.metricsPort, logger: logger)
    do {
      if let bus = try await watch.unlessAsked({ try await connect(wait) }) {
        try await run(on: bus, busName: busName, beside, wait, watch)
      }
    } catch {
      await wait.end()
      throw startError(error)
    }
    await wait.end()
    logger.notice("stopped")
  }

  private func run<Bus: ClusterBus>(
    on bus: Bus, busName: String, _ beside: [any Service], _ wait: StartWait, _ watch: SignalWatch
  ) async throws {
    let loops = roles.hasEdge && roles.hasCoordinator ? SharedLoops(count: eventLoops) : nil
    do {
      let built = try await watch.unlessAsked {
        let shardCount = try await settleShardCount(bus, wait)
        announce(busName: busName, shardCount: shardCount)
        warnOfStore(bus.statistics)
        return try await self.services(bus, loops, shardCount: shardCount, wait)
      }
      if let services = built {
        await wait.end()
        let longest = Duration.microseconds(configuration.drain.microseconds) + .seconds(15)
        try await watch.serve(services + beside, longest: longest)
      }
    } catch {
      await bus.close()
      await loops?.shutDown()
      throw error
    }
    await bus.close()
    await loops?.shutDown()
  }

  /// As many as the setting allows: a session's number has 8 bits for its loop.
  private var eventLoops: Int { min(configuration.eventLoops ?? System.coreCount, 256) }

  /// The coordinator comes first, so that it starts before the edge and stops after it.
  private func services(
    _ bus: some ClusterBus, _ loops: SharedLoops?, shardCount: Int, _ wait: StartWait
  ) async throws -> [any Service] {
    let clock = ClusterClock(wallMicroseconds: CalendarTime.nowMilliseconds() * 1000)
    let metrics = MetricsRegistry()
    ProcessSample.register(in: metrics)
    let secrets = ClusterSecrets(
      configuration: configuration, roles: roles, keys: inputs.keys, clock: clock,
      logger: logger)
    try await secrets.follow(bus, wait)

    var services: [any Service] = []
    if let tokens = secrets.tokens, let path = configuration.keysFile {
      metrics.reading("callmesh_revocations", "Users whose tokens were revoked.") {
        Double(tokens.revocationCount)
      }
      services.append(
        FileReload.appKeys(path: path, tokens: tokens, metrics: metrics, logger: logger))
    }
    if roles.hasCoordinator {
      var own = configuration.coordinator(shardCount: shardCount, nodeID: name("coordinator"))
      own.authority = secrets.commandAuthority
      // As many as the setting allows.
      own.workers = max(own.workers, min(loops?.threads.count ?? 1, 64))
      services.append(
        CoordinatorNode(
          configuration: own, bus: bus, clock: clock, metrics: metrics, logger: logger,
          threads: loops?.threads ?? [], exchange: loops?.exchange))
    }
    // A gateway for webhooks alone has its heartbeats, status and orders, too.
    if let providers = inputs.providers ?? (roles == .push ? PushProviders.none : nil) {
      let senders = try PushSenders(providers, clock: clock, metrics: metrics, logger: logger)
      services.append(FileReload.pushKeys(providers.files, senders, logger: logger))
      services.append(
        PushGateway(
          configuration: configuration.gateway(shardCount: shardCount, nodeID: name("push")),
          bus: bus, clock: clock, metrics: metrics, logger: logger, pools: senders.pools,
          keyring: secrets.pushKeys))
    }
    if let problem = inputs.keysProblem {
      logger.notice(
        "This gateway delivers to no webhooks: it cannot read the file of keys.",
        metadata: .keys([.error: "\(problem)"]))
    }
    if roles.hasPush, let tokens = secrets.tokens {
      services.append(
        WebhookDispatcher(
          nodeID: name("push"), cluster: configuration.cluster,
          existing: configuration.existingBuckets, tokens: tokens, bus: bus, clock: clock,
          metrics: metrics, logger: logger))
    }
    if let tls = inputs.tls { services.append(FileReload.certificate(tls, logger: logger)) }
    if let turn = inputs.turn { services.append(FileReload.relaySecret(turn, logger: logger)) }
    let edge = roles.hasEdge ? secrets.tokens.map { edgeConfiguration(shardCount, $0) } : nil
    let edgeNode = edge.map {
      EdgeNode(
        configuration: $0, bus: bus, clock: clock, metrics: metrics, logger: logger,
        pushKeys: secrets.pushKeys, eventLoops: loops?.group, exchange: loops?.exchange)
    }
    if configuration.metricsPort > 0 {
      services.append(
        MetricsServer(
          host: configuration.metricsHost, port: configuration.metricsPort, metrics: metrics,
          readiness: {
            if let edgeNode { return edgeNode.readiness }
            return Readiness(missing: bus.statistics.connected ? [] : ["the bus is not connected"])
          }, logger: logger))
    }
    if let edgeNode { services.append(edgeNode) }
    return services
  }

  private func edgeConfiguration(_ shardCount: Int, _ tokens: TokenAuthority) -> EdgeConfiguration {
    let files = DescriptorLimit.current()
    let out = configuration.edge(
      shardCount: shardCount, nodeID: name("edge"), tokens: tokens, tls: inputs.tls,
      turn: inputs.turn, files: files)
    let most = files.connections(eventLoops: out.eventLoops)
    if out.peers.connectionsMax > most {
      logger.warning(
        """
        connectionsMax is \(out.peers.connectionsMax), and the limit of open files (\(files.files)) leaves \
        \(most) for connections: raise it (LimitNOFILE of the unit, ulimit -n), or lower connectionsMax.
        """)
    }
    return out
  }

  /// Two roles of one process are two nodes to the cluster.
  private func name(_ role: String) -> String {
    roles == .all ? "\(configuration.nodeID)-\(role)" : configuration.nodeID
  }

  /// The first line of every node: what runs here.
  private func announce(busName: String, shardCount: Int) {
    var metadata: Logger.Metadata = .keys([
      .role: "\(roles.rawValue)", .version: "\(CallmeshVersion.current)",
      .cluster: "\(configuration.cluster)", .nats: "\(busName)", .shards: "\(shardCount)",
    ])
    if roles.hasEdge {
      metadata[LogKey.host.rawValue] = "\(configuration.edge.host)"
      metadata[LogKey.port.rawValue] = "\(configuration.edge.port)"
    }
    logger.notice("node starts", metadata: metadata)
  }

  private func warnOfStore(_ known: BusStatistics) {
    guard roles.hasCoordinator else { return }
    let server = (version: known.serverVersion, address: known.server)
    let replicas = configuration.buckets.replicas
    for warning in [
      StoreVersion.warning([server.version], replicas: replicas), StoreVersion.advisory([server]),
    ] {
      if let warning { logger.warning("\(warning)") }
    }
  }
}
