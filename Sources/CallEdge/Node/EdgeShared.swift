internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import Synchronization

/// The objects that all event loops of an edge share.
final class EdgeShared: Sendable {
  let configuration: EdgeConfiguration
  /// Drawn at the start. Only coordinators learn it.
  let secret: EdgeSecret
  /// This edge's number in sessions, which follows from the secret.
  let incarnation: UInt64
  let subjects: Subjects
  let tokens: TokenAuthority
  /// Empty until the cluster's keys for pushes are known.
  let pushKeys: PushKeyring
  let rules: SessionRules
  let apps: AppGates
  let hooks: AppHooks
  let origins: AllowedOrigins
  let metrics: EdgeMetrics
  let gate: PeerGate
  let clock: ClusterClock
  let logger: Logger
  let health: ClusterHealth
  let isBusConnected: @Sendable () -> Bool
  /// The way from and to the coordinator of this process; nil without one.
  let exchange: LocalExchange?
  /// The rates of HTTP requests by user or device, whose connections are on any event loop.
  let requestRates: Mutex<RateTable<RateKey>>
  /// The refused tokens whose faults are looked for.
  let faultsNoted: Mutex<TokenBucket>
  static let faultsPerSecond = 20
  private let send: @Sendable ([OutgoingMessage]) -> Int

  init(
    configuration: EdgeConfiguration, secret: EdgeSecret, pushKeys: PushKeyring,
    registry: MetricsRegistry, clock: ClusterClock, logger: Logger, exchange: LocalExchange?,
    isBusConnected: @escaping @Sendable () -> Bool,
    send: @escaping @Sendable ([OutgoingMessage]) -> Int
  ) {
    self.configuration = configuration
    self.secret = secret
    let incarnation = secret.number
    self.incarnation = incarnation
    self.pushKeys = pushKeys
    self.clock = clock
    self.logger = logger
    health = ClusterHealth(shardCount: configuration.shardCount)
    self.isBusConnected = isBusConnected
    self.exchange = exchange
    self.send = send
    subjects = Subjects(cluster: configuration.cluster, shardCount: configuration.shardCount)
    tokens = configuration.tokens
    apps = AppGates(
      tokens.keys.terms, usersMax: configuration.peers.requestRatesMax, registry: registry,
      now: clock.now())
    hooks = AppHooks(
      tokens.keys.hooks, client: configuration.hookClient ?? HookHTTPClient(), registry: registry,
      logger: logger)
    rules = SessionRules(edge: incarnation, configuration: configuration, apps: apps)
    origins = AllowedOrigins(configuration.allowedOrigins)
    metrics = EdgeMetrics(registry)
    Self.register(configuration.tls, clock, in: registry)
    gate = PeerGate(configuration, metrics, logger: logger, now: clock.now())
    requestRates = Mutex(
      RateTable(
        perSecond: configuration.commandsPerSecond, burst: configuration.commandsBurst,
        entriesMax: configuration.peers.requestRatesMax, now: clock.now()))
    faultsNoted = Mutex(TokenBucket(burst: Self.faultsPerSecond, now: clock.now()))
  }

  /// Registers the metrics of the certificate. Without TLS it never expires.
  private static func register(
    _ tls: EdgeTLS?, _ clock: ClusterClock, in registry: MetricsRegistry
  ) {
    registry.reading(
      "callmesh_edge_certificate_expires_seconds", "Time until the certificate expires."
    ) {
      guard let tls else { return .infinity }
      return Double(tls.certificate.expires) - Double(clock.now().microseconds) / 1e6
    }
    registry.reading(
      "callmesh_edge_certificate_refused_total",
      "Times that a changed certificate or key was not usable, and the former one stayed.",
      type: "counter"
    ) { Double(tls?.refused ?? 0) }
  }

  /// Begins or ends to refuse attaches and calls.
  func setDraining(_ isDraining: Bool) {
    guard rules.isDraining != isDraining else { return }
    rules.isDraining = isDraining
    if configuration.publicURL != nil { exchange?.edgeChanged() }
  }

  /// Where the devices of this process's shards are sent; empty while this edge has no room for more.
  var addressOffered: String {
    guard let address = configuration.publicURL, !rules.isDraining, gate.hasRoom else { return "" }
    return address
  }

  /// Hands commands to their shard's owner, if that is in this process.
  /// - Returns: otherwise the message that brings them to their owner.
  func handOver(_ commands: [Command], to shard: Int) -> OutgoingMessage? {
    let batch = CommandBatch(edge: incarnation, secret: secret, commands: commands)
    if exchange?.offer(batch, to: shard) ?? false { return nil }
    return OutgoingMessage(
      subject: subjects.commands(shard: shard), bytes: ClusterCodec.encode(batch))
  }

  /// Queues messages without blocking. What the bus has no room for is counted; its commands are
  /// retransmitted.
  func publish(_ messages: [OutgoingMessage]) {
    guard !messages.isEmpty else { return }
    let dropped = send(messages)
    if dropped > 0 { metrics.busDropped.increment(by: UInt64(dropped)) }
  }
}
