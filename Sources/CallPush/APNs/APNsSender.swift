public import CallBus
public import CallCore
public import CallTelemetry
public import Logging
public import NIOCore
internal import Synchronization

/// Sends VoIP, alert and background pushes to Apple. Each team, key and environment has a pool of connections. The
/// token's topic and environment select the pool.
///
/// A token of unknown environment is tried in production first. If APNs does not know it there, or not in the
/// environment of the registration, the other one is tried; the outcome names the environment that was found. See
/// `TokenRefusals` for a token that neither knows.
public final class APNsSender: PushSender {
  private struct Member: Sendable {
    var configuration: APNsConfiguration
    let pool: APNsPool
    let statistics: SenderStatistics
    let metrics: APNsMetrics
    let refusals: TokenRefusals
  }

  private struct Members: Sendable {
    var byName: [String: Member] = [:]
    var byTopic: [APNsEnvironment: [String: Member]] = [:]
  }

  private let members: Mutex<Members>
  private let clock: ClusterClock
  private let sleeps: CancellableSleeps

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
    sleeps = CancellableSleeps(clock: clock)
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
        configuration: configuration, pool: pool, statistics: statistics, metrics: own,
        refusals: TokenRefusals(
          name: configuration.name, provider: .apns, metrics: metrics, logger: logger))
    }
    Self.index(&members)
    self.members = Mutex(members)
  }

  // MARK: Sending

  public func send(_ message: PushMessage) async -> PushOutcome {
    let route = route(message)
    guard let first = route.first else {
      return .rejected(reason: "no APNs sender for this topic and environment")
    }
    first.statistics.began()
    let outcome = await send(message, by: route, first.refusals)
    first.statistics.ended(outcome)
    return outcome
  }

  /// While the token is in doubt, asks again until the deadline.
  private func send(
    _ message: PushMessage, by route: [Member], _ refusals: TokenRefusals
  ) async -> PushOutcome {
    var context = AttemptContext(now: clock.now(), deadline: message.deadline)
    context.isUrgent = message.isUrgent
    var doubt: PushOutcome?
    while true {
      let refusal: TokenRefusal
      switch await ask(message, route) {
      case .outcome(.expired): return message.isCancelled ? .expired : doubt ?? .expired
      case .outcome(let outcome):
        if outcome.kind == .accepted { refusals.accepted(message.token, now: clock.now()) }
        return outcome
      case .tokenRefused(let reason): refusal = TokenRefusal(reason)
      }
      context.now = clock.now()
      context.chance = .random(in: 0 ... .max)
      let verdict = refusals.judge(refusal, of: message, now: context.now)
      guard !verdict.isFinal, message.isUrgent, !Task.isCancelled,
        case .retry(let wait, _, _) = context.retry(reason: refusal.reason)
      else { return verdict.outcome }
      doubt = verdict.outcome
      route[0].statistics.retried()
      await sleeps.sleep(for: wait, unless: message.cancellation)
      context.attempt += 1
    }
  }

  /// Asks each environment that the token may belong to.
  private func ask(_ message: PushMessage, _ route: [Member]) async -> APNsResult {
    var refusal: APNsResult?
    for member in route {
      let now = clock.now()
      guard message.deadline > now, !message.isCancelled else { return .outcome(.expired) }
      let request: APNsRequest
      do {
        request = try APNsRequest(message, voipKeep: member.configuration.limits.voipKeep)
      } catch {
        return .outcome(.rejected(reason: error.rawValue))
      }
      let result = await member.pool.send(request, of: message)
      let environment = member.configuration.environment.rawValue
      switch result {
      case .outcome(.accepted) where environment != message.token.environment:
        return .outcome(.acceptedIn(environment: environment))
      case .outcome: return result
      case .tokenRefused: refusal = refusal ?? result
      }
    }
    return refusal ?? .outcome(.expired)
  }

  /// The pools that the token may belong to, the more likely first. One that was accepted belongs to its environment.
  private func route(_ message: PushMessage) -> [Member] {
    let token = message.token
    guard token.provider == .apns else { return [] }
    var environments: [APNsEnvironment] =
      switch token.environment {
      case "", "production": [.production, .sandbox]
      case "development", "sandbox": [.sandbox, .production]
      default: []
      }
    guard !environments.isEmpty else { return [] }
    if message.trust != .unproven { environments = Array(environments.prefix(1)) }
    let bundle = APNsConfiguration.bundle(of: token.topic)
    return members.withLock { members in
      // Where the environment that was said has no sender, the other one is no substitute.
      if !token.environment.isEmpty, members.byTopic[environments[0]]?[bundle] == nil { return [] }
      return environments.compactMap { members.byTopic[$0]?[bundle] }
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
    sleeps.close()
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
