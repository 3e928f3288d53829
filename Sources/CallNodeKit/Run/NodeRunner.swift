internal import CallAuth
internal import CallBus
internal import CallCoordinator
internal import CallCore
internal import CallEdge
internal import CallPush
internal import CallTelemetry
internal import Logging
internal import ServiceLifecycle

/// Connects, builds the roles of a process on the bus and runs them until they are asked to stop.
struct NodeRunner {
  var configuration: NodeConfiguration
  var roles: NodeRoles
  /// Set where there is an edge or a coordinator.
  var keys: AppKeys?
  /// Set where an edge speaks TLS.
  var tls: EdgeTLS?
  /// Set where there is a push gateway.
  var providers: PushProviders?
  var logger: Logger

  /// - Parameters:
  ///   - connect: makes the bus; may say why that takes long.
  ///   - busName: what the log calls the bus.
  ///   - beside: what runs beside the roles, and whose end is theirs.
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
    do {
      let built = try await watch.unlessAsked {
        let shardCount = try await settleShardCount(bus, wait)
        announce(busName: busName, shardCount: shardCount)
        warnOfStore(bus.statistics)
        return try await self.services(bus, shardCount: shardCount, wait)
      }
      if let services = built {
        await wait.end()
        let longest = Duration.microseconds(configuration.drain.microseconds) + .seconds(15)
        try await watch.serve(services + beside, longest: longest)
      }
    } catch {
      await bus.close()
      throw error
    }
    await bus.close()
  }

  private func startError(_ error: any Error) -> StartError {
    let text = "\(error)"
    if text.hasPrefix("bind(") {
      // An edge says more of its own port.
      return .failure(
        """
        the operators' port \(configuration.metricsPort) of \(configuration.metricsHost) cannot be \
        listened on: \(text).
          Is another process there? Another port: \(SettingKey.metricsPort.flag); another address: \
        \(SettingKey.metricsHost.flag).
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

  private func settleShardCount(_ bus: some ClusterBus, _ wait: StartWait) async throws -> Int {
    let retry = wait.retryPolicy(for: "the store", limit: configuration.startTimeout)
    do {
      let (wanted, cluster) = (configuration.shardCount, configuration.cluster)
      let name = Subjects(cluster: cluster, shardCount: 1).configurationBucket
      if roles.hasCoordinator {
        return try await retry {
          let bucket = try await bus.openBucket(name, configuration.bucket.small)
          return try await ClusterAgreement.settle(bucket, wanted: wanted, cluster: cluster)
        }
      }
      // An edge makes no buckets: it does not know on how many servers they are to be.
      let bucket = try await retry { try await bus.openBucket(name, existingBucket) }
      let count = try await retry {
        try await ClusterAgreement.await(bucket, wanted: wanted, cluster: cluster) {
          wait.waits(for: "the cluster's first coordinator", "it decides on the number of shards")
        }
      }
      let leases = Subjects(cluster: cluster, shardCount: count).leaseBucket
      _ = try await retry { try await bus.openBucket(leases, existingBucket) }
      return count
    } catch let error as BusError {
      throw StartError.failure(
        """
        the cluster's configuration cannot be read: \(error).
          Does a coordinator run, is JetStream on (nats-server -js), and has it room? With \
        --journal-replicas \(configuration.bucket.replicas) it needs as many NATS servers.
        """)
    }
  }

  private var existingBucket: BucketOptions {
    var options = configuration.bucket
    options.createsMissing = false
    return options
  }

  /// The first line of every node: what runs here.
  private func announce(busName: String, shardCount: Int) {
    var metadata: Logger.Metadata = .keys([
      .role: "\(roles.rawValue)", .version: "\(CallmeshVersion.current)",
      .cluster: "\(configuration.cluster)", .nats: "\(busName)", .shards: "\(shardCount)",
    ])
    if roles.hasEdge {
      metadata[LogKey.host.rawValue] = "\(configuration.host)"
      metadata[LogKey.port.rawValue] = "\(configuration.port)"
    }
    logger.notice("node starts", metadata: metadata)
  }

  private func warnOfStore(_ known: BusStatistics) {
    guard roles.hasCoordinator else { return }
    let server = (version: known.serverVersion, address: known.server)
    let replicas = configuration.bucket.replicas
    for warning in [
      StoreVersion.warning([server.version], replicas: replicas), StoreVersion.advisory([server]),
    ] {
      if let warning { logger.warning("\(warning)") }
    }
  }

  /// The coordinator comes first, so that it starts before the edge and stops after it.
  private func services(_ bus: some ClusterBus, shardCount: Int, _ wait: StartWait) async throws
    -> [any Service]
  {
    let clock = ClusterClock(wallMicroseconds: CalendarTime.nowMilliseconds() * 1000)
    let metrics = MetricsRegistry()
    ProcessSample.register(in: metrics)
    var services: [any Service] = []
    let keyring = PushKeyring()
    let retry = wait.retryPolicy(for: "the store", limit: configuration.startTimeout)
    try await retry { try await followPushKeys(bus, keyring) }
    let tokens = keys.map {
      TokenAuthority(
        keys: $0, maximumAgeSeconds: configuration.maxTokenAge.microseconds / 1_000_000)
    }
    let revocations = wait.retryPolicy(
      for: "the list of revoked tokens", limit: configuration.startTimeout)
    try await revocations { try await openRevocations(bus, tokens, clock) }
    if let tokens, let path = configuration.keysFile {
      metrics.reading("callmesh_revocations", "Users whose tokens were revoked.") {
        Double(tokens.revocationCount)
      }
      services.append(AppKeysReload(path: path, tokens: tokens, metrics: metrics, logger: logger))
    }
    if roles.hasCoordinator {
      let tickets = TicketKeyring()
      try await retry { try await followTicketKeys(bus, tickets) }
      var configuration = coordinator(shardCount)
      configuration.authority = tokens.map {
        CommandAuthority(tokens: $0, tickets: tickets, pushKeys: keyring)
      }
      services.append(
        CoordinatorNode(
          configuration: configuration, bus: bus, clock: clock, metrics: metrics,
          logger: logger))
    }
    if let providers {
      let senders = try PushSenders(providers, clock: clock, metrics: metrics, logger: logger)
      services.append(PushKeyReload(files: providers.files, senders: senders, logger: logger))
      services.append(
        PushGateway(
          configuration: gateway(shardCount), bus: bus, clock: clock, metrics: metrics,
          logger: logger, pools: senders.pools, keyring: keyring, encode: Self.encode))
    }
    if let tls { services.append(CertificateReload(tls: tls, logger: logger)) }
    let edgeTokens = roles.hasEdge ? tokens : nil
    let edge = edgeTokens.map {
      EdgeNode(
        configuration: self.edge(shardCount, $0), bus: bus, clock: clock, metrics: metrics,
        logger: logger, pushKeys: keyring)
    }
    if configuration.metricsPort > 0 {
      services.append(
        MetricsServer(
          host: configuration.metricsHost, port: configuration.metricsPort, metrics: metrics,
          readiness: {
            if let edge { return edge.readiness }
            return Readiness(missing: bus.statistics.connected ? [] : ["the bus is not connected"])
          }, logger: logger))
    }
    if let edge { services.append(edge) }
    return services
  }

  private func coordinator(_ shardCount: Int) -> CoordinatorConfiguration {
    var out = CoordinatorConfiguration(
      nodeID: name("coordinator"), cluster: configuration.cluster,
      version: CallmeshVersion.current)
    out.shardCount = shardCount
    out.workers = configuration.workers
    out.limits = configuration.limits
    out.storeTimeout = configuration.startTimeout
    out.heartbeatInterval = configuration.heartbeatInterval
    out.leaseTimeout = configuration.leaseTimeout
    out.probeTime = configuration.probeTime
    out.probeAfterConnect = configuration.probeAfterConnect
    out.checkpointEveryRecords = configuration.checkpointEveryRecords
    out.checkpointEveryBytes = configuration.checkpointEveryBytes
    out.checkpointEvery = configuration.checkpointEvery
    out.rebalanceInterval = configuration.rebalanceInterval
    out.stoppedRetry = configuration.stoppedRetry
    out.shutdownTimeout = max(configuration.drain, .seconds(5))
    out.journal = configuration.journal
    out.buckets = configuration.bucket
    out.pushQueue.replicas = configuration.bucket.replicas
    out.pushQueue.inMemory = configuration.bucket.inMemory
    out.pushQueue.bytesMax = configuration.pushQueueBytes
    out.sessionTickets = configuration.sessionTickets
    return out
  }

  /// The keys for session tickets. They lie apart, so that nobody but coordinators may read them.
  private func followTicketKeys(_ bus: some ClusterBus, _ keyring: TicketKeyring) async throws {
    let name = Subjects(cluster: configuration.cluster, shardCount: 1).ticketBucket
    let bucket = try await bus.openBucket(name, configuration.bucket.small)
    try await KeysRecord.ensure(KeysRecord.tickets, in: bucket)
    // Follows for as long as the bus lives.
    _ = try await KeysRecord.follow(
      KeysRecord.tickets, in: bucket, keyring, { try SessionTicketKeys($0) },
      unreadable: { [logger] error in
        logger.error(
          "The keys for session tickets cannot be read.", metadata: .keys([.error: "\(error)"]))
      })
  }

  /// Gateways sign what pushes allow; edges and coordinators verify it; coordinators make the keys.
  private func followPushKeys(_ bus: some ClusterBus, _ keyring: PushKeyring) async throws {
    let names = Subjects(cluster: configuration.cluster, shardCount: 1)
    let options = roles.hasCoordinator ? configuration.bucket.small : existingBucket
    let agreed = try await bus.openBucket(names.configurationBucket, options)
    let unreadable = { @Sendable [logger] (error: String) in
      logger.error(
        "The keys for push capabilities cannot be read.", metadata: .keys([.error: "\(error)"]))
    }
    // Both follow for as long as the bus lives.
    if roles.hasCoordinator || roles.hasPush {
      let secret = try await bus.openBucket(names.pushKeyBucket, options)
      if roles.hasCoordinator {
        try await KeysRecord.ensurePush(in: secret, configuration: agreed)
      }
      _ = try await KeysRecord.follow(
        KeysRecord.push, in: secret, keyring, { try PushCapabilityKeys($0) },
        unreadable: unreadable)
    } else {
      _ = try await KeysRecord.followPublic(agreed, keyring, unreadable: unreadable)
    }
  }

  /// Nobody checks a token before it has read the whole list of revocations; coordinators make it.
  private func openRevocations(
    _ bus: some ClusterBus, _ tokens: TokenAuthority?, _ clock: ClusterClock
  ) async throws {
    guard roles.hasCoordinator || tokens != nil else { return }
    let name = Subjects(cluster: configuration.cluster, shardCount: 1).revocationBucket
    let options = roles.hasCoordinator ? Revocation.bucket(configuration.bucket) : existingBucket
    let bucket = try await bus.openBucket(name, options)
    guard let tokens else { return }
    // Follows for as long as the bus lives.
    _ = try await Revocation.follow(
      bucket,
      unreadable: { [logger] key in
        logger.error("A revocation cannot be read.", metadata: .keys([.key: "\(key)"]))
      },
      { revocation in
        tokens.revoke(
          app: revocation.app, user: revocation.user, atSeconds: revocation.atSeconds,
          now: clock.now().microseconds / 1_000_000)
      })
  }

  private func gateway(_ shardCount: Int) -> PushGatewayConfiguration {
    var out = PushGatewayConfiguration(
      nodeID: name("push"), cluster: configuration.cluster, version: CallmeshVersion.current)
    out.shardCount = shardCount
    out.storeTimeout = configuration.startTimeout
    out.heartbeatInterval = configuration.heartbeatInterval
    out.drain = max(configuration.drain, .seconds(5))
    out.sendsPerPool = configuration.pushInFlight
    out.waitingPerPool = configuration.pushWaiting
    return out
  }

  private static func encode(_ job: PushJob, _ capability: String, _ id: String) -> PushEncoding {
    let outcome = PayloadEncoder.encode(PushContent(job: job, capability: capability))
    guard case .payload(let payload) = outcome else {
      return .none(outcome.rejection ?? .rejected(reason: "noPayload"))
    }
    return .message(payload.message(id: id, for: job))
  }

  private func edge(_ shardCount: Int, _ tokens: TokenAuthority) -> EdgeConfiguration {
    var out = EdgeConfiguration(nodeID: name("edge"), tokens: tokens)
    out.cluster = configuration.cluster
    out.version = CallmeshVersion.current
    out.host = configuration.host
    out.port = configuration.port
    out.tls = tls
    out.shardCount = shardCount
    if let eventLoops = configuration.eventLoops { out.eventLoops = eventLoops }
    out.buckets = existingBucket
    out.storeTimeout = configuration.startTimeout
    out.limits = configuration.limits
    out.pingInterval = configuration.pingInterval
    out.commandsPerSecond = configuration.commandsPerSecond
    out.commandsBurst = configuration.commandsBurst
    out.allowedOrigins = configuration.allowedOrigins
    takePeers(into: &out)
    out.heartbeatInterval = configuration.heartbeatInterval
    out.drainSeconds = Int(configuration.drain.microseconds / 1_000_000)
    return out
  }

  private func takePeers(into out: inout EdgeConfiguration) {
    let files = DescriptorLimit.current()
    let most = files.connections(eventLoops: out.eventLoops)
    out.peers = configuration.peers
    out.peers.connectionsMax = configuration.connectionsMax ?? most
    out.trustedProxies = configuration.trustedProxies
    out.proxyProtocol = configuration.proxyProtocol
    out.unlimitedAddresses = configuration.unlimitedAddresses
    guard out.peers.connectionsMax > most else { return }
    logger.warning(
      """
      connectionsMax is \(out.peers.connectionsMax), and the limit of open files (\(files.files)) leaves \
      \(most) for connections: raise it (LimitNOFILE of the unit, ulimit -n), or lower connectionsMax.
      """)
  }

  /// Two roles of one process are two nodes to the cluster.
  private func name(_ role: String) -> String {
    roles == .all ? "\(configuration.nodeID)-\(role)" : configuration.nodeID
  }
}
