internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import Synchronization

/// What all event loops of an edge share. Never changes, but for the rates of HTTP requests.
final class EdgeShared: Sendable {
  let configuration: EdgeConfiguration
  /// Drawn at start, and told to coordinators alone.
  let secret: EdgeSecret
  /// Follows from it: this edge's number in sessions.
  let incarnation: UInt64
  let subjects: Subjects
  let tokens: TokenAuthority
  /// Empty until the cluster's keys for pushes are known.
  let pushKeys: PushKeyring
  let rules: SessionRules
  let origins: AllowedOrigins
  let metrics: EdgeMetrics
  let gate: PeerGate
  let registry: MetricsRegistry
  let clock: ClusterClock
  let logger: Logger
  let health: ClusterHealth
  let isBusConnected: @Sendable () -> Bool
  /// A user's requests come on connections of any event loop. Held for a look into a table.
  let requestRates: Mutex<RateTable<RateKey>>
  private let send: @Sendable ([OutgoingMessage]) -> Int

  init(
    configuration: EdgeConfiguration, secret: EdgeSecret, pushKeys: PushKeyring,
    registry: MetricsRegistry, clock: ClusterClock, logger: Logger, health: ClusterHealth,
    isBusConnected: @escaping @Sendable () -> Bool,
    send: @escaping @Sendable ([OutgoingMessage]) -> Int
  ) {
    self.configuration = configuration
    self.secret = secret
    let incarnation = secret.number
    self.incarnation = incarnation
    self.pushKeys = pushKeys
    self.registry = registry
    self.clock = clock
    self.logger = logger
    self.health = health
    self.isBusConnected = isBusConnected
    self.send = send
    subjects = Subjects(
      cluster: configuration.cluster, shardCount: configuration.shardCount)
    tokens = configuration.tokens
    rules = SessionRules(edge: incarnation, configuration: configuration)
    origins = AllowedOrigins(configuration.allowedOrigins)
    metrics = EdgeMetrics(registry)
    gate = PeerGate(configuration, PeerMetrics(registry), logger: logger, now: clock.now())
    requestRates = Mutex(
      RateTable(
        perSecond: configuration.commandsPerSecond, burst: configuration.commandsBurst,
        entriesMax: configuration.peers.requestRatesMax, now: clock.now()))
  }

  func message(to shard: Int, _ commands: [Command]) -> OutgoingMessage {
    OutgoingMessage(
      subject: subjects.commands(shard: shard),
      bytes: ClusterCodec.encode(
        CommandBatch(edge: incarnation, secret: secret, commands: commands)))
  }

  /// Queues messages; never blocks. What the bus has no room for is counted, and sent again with
  /// its command's next attempt.
  func publish(_ messages: [OutgoingMessage]) {
    let dropped = send(messages)
    if dropped > 0 { metrics.busDropped.increment(by: UInt64(dropped)) }
  }
}
