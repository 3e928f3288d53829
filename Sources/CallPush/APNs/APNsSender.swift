public import CallBus
public import CallCore
public import CallTelemetry
public import Logging
public import NIOCore
internal import Synchronization

/// Sends VoIP, alert and background pushes to Apple. Each team, key and environment has a pool of connections. The
/// token's topic and environment select the pool.
///
/// A token of unknown environment is tried in production first; if APNs does not know it there, once in the sandbox. A
/// token that neither knows is gone.
public final class APNsSender: PushSender {
  private struct Member: Sendable {
    var configuration: APNsConfiguration
    let pool: APNsPool
    let statistics: SenderStatistics
    let metrics: APNsMetrics
  }

  private struct Members: Sendable {
    var byName: [String: Member] = [:]
    var byTopic: [APNsEnvironment: [String: Member]] = [:]
  }

  private let members: Mutex<Members>
  private let clock: ClusterClock

  /// - Parameters:
  ///   - group: each pool runs on one of its event loops.
  ///   - clock: must agree with the wall clock, since provider tokens and expirations use its time.
  ///   - seed: for jitter.
  /// - Throws: what is wrong with the configuration. Connections are opened afterwards.
  public init(
    _ configurations: [APNsConfiguration], group: any EventLoopGroup, clock: ClusterClock,
    logger: Logger, metrics: MetricsRegistry = MetricsRegistry(),
    seed: UInt64 = .random(in: 0 ... .max)
  ) throws(APNsConfigurationError) {
    self.clock = clock
    var endpoints: [APNsEndpoint] = []
    var names: Set<String> = []
    for configuration in configurations {
      try configuration.validate()
      guard names.insert(configuration.name).inserted else { throw .nameTwice(configuration.name) }
      endpoints.append(try APNsEndpoint(configuration))
    }
    try Self.checkTopics(of: configurations)

    var members = Members()
    for (index, configuration) in configurations.enumerated() {
      let statistics = SenderStatistics(name: configuration.name, provider: .apns, metrics: metrics)
      let own = APNsMetrics(name: configuration.name, metrics: metrics)
      var logger = logger
      logger[metadataKey: "sender"] = "\(configuration.name)"
      let pool = APNsPool(
        configuration: configuration, endpoint: endpoints[index], eventLoop: group.next(),
        clock: clock, seed: seed &+ UInt64(index),
        report: APNsReport(statistics: statistics, metrics: own, logger: logger))
      members.byName[configuration.name] = Member(
        configuration: configuration, pool: pool, statistics: statistics, metrics: own)
    }
    Self.index(&members)
    self.members = Mutex(members)
  }

  // MARK: Sending

  public func send(_ message: PushMessage) async -> PushOutcome {
    let route = route(message.token)
    guard let first = route.first else {
      return .rejected(reason: "no APNs sender for this topic and environment")
    }
    first.statistics.began()
    let outcome = await send(message, by: route)
    first.statistics.ended(outcome)
    return outcome
  }

  private func send(_ message: PushMessage, by route: [Member]) async -> PushOutcome {
    for member in route {
      let now = clock.now()
      guard message.deadline > now, !message.isCancelled else { return .expired }
      let request: APNsRequest
      do {
        request = try APNsRequest(message, now: now, voipKeep: member.configuration.limits.voipKeep)
      } catch {
        return .rejected(reason: error.rawValue)
      }
      switch await member.pool.send(request, of: message) {
      case .outcome(let outcome): return outcome
      case .badDeviceToken: continue
      }
    }
    return .tokenGone(at: nil)
  }

  /// The pools that the token may belong to, the more likely first.
  private func route(_ token: PushToken) -> [Member] {
    guard token.provider == .apns else { return [] }
    let environments: [APNsEnvironment] =
      switch token.environment {
      case "": [.production, .sandbox]
      case "development", "sandbox": [.sandbox]
      case "production": [.production]
      default: []
      }
    let bundle = APNsConfiguration.bundle(of: token.topic)
    return members.withLock { members in
      environments.compactMap { members.byTopic[$0]?[bundle] }
    }
  }

  // MARK: Running

  /// Replaces the key and the topics of the pool with this name. New connections use the new key; open ones drain.
  /// - Throws: what is wrong with the configuration; nothing is replaced then.
  public func update(_ configuration: APNsConfiguration) throws(APNsConfigurationError) {
    try configuration.validate()
    let pool = try members.withLock { (members) throws(APNsConfigurationError) in
      guard let member = members.byName[configuration.name] else {
        throw .unknownName(configuration.name)
      }
      guard Self.isSamePlace(member.configuration, configuration) else {
        throw .needsRestart(configuration.name)
      }
      var changed = members
      changed.byName[configuration.name]?.configuration = configuration
      try Self.checkTopics(of: changed.byName.values.map(\.configuration))
      Self.index(&changed)
      members = changed
      return member.pool
    }
    pool.update(configuration.credentials)
  }

  public func close() async {
    let pools = members.withLock { $0.byName.values.map(\.pool) }
    await withTaskGroup { group in
      for pool in pools { group.addTask { await pool.close() } }
    }
  }

  /// The statistics of all pools, by name.
  public var statistics: [SenderStatistics] {
    members.withLock { members in
      members.byName.values.map(\.statistics).sorted { $0.name < $1.name }
    }
  }

  package func metrics(of name: String) -> APNsMetrics? {
    members.withLock { $0.byName[name]?.metrics }
  }

  // MARK: Topics

  private static func index(_ members: inout Members) {
    members.byTopic = [:]
    for member in members.byName.values {
      for topic in member.configuration.topics {
        members.byTopic[member.configuration.environment, default: [:]][
          APNsConfiguration.bundle(of: topic)] = member
      }
    }
  }

  /// - Throws: if two pools serve one topic in one environment.
  private static func checkTopics(
    of configurations: [APNsConfiguration]
  ) throws(APNsConfigurationError) {
    var seen: Set<String> = []
    for configuration in configurations {
      for topic in Set(configuration.topics.map(APNsConfiguration.bundle)) {
        guard seen.insert("\(configuration.environment) \(topic)").inserted else {
          throw .topicTwice(topic)
        }
      }
    }
  }

  private static func isSamePlace(_ a: APNsConfiguration, _ b: APNsConfiguration) -> Bool {
    a.environment == b.environment && a.host == b.host && a.port == b.port
      && a.tlsServerName == b.tlsServerName && a.extraTrustRootsPEM == b.extraTrustRootsPEM
      && a.limits == b.limits
  }
}
