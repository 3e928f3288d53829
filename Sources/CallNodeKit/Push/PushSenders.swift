internal import CallBus
internal import CallCore
internal import CallPush
internal import CallTelemetry
internal import FoundationEssentials
internal import Logging
internal import NIOPosix

/// The senders that the providers' file describes, as pools of a gateway; and their keys, which may be
/// replaced while they run.
struct PushSenders: Sendable {
  private let providers: PushProviders
  private let apns: APNsSender?
  private let fcm: [FCMSender]
  private let webPush: [WebPushSender]
  let pools: [GatewayPool]

  /// Reads every key. The sender for Apple connects at once, the others with the first push.
  /// - Throws: `ConfigurationError`.
  init(
    _ providers: PushProviders, clock: ClusterClock, metrics: MetricsRegistry, logger: Logger
  ) throws(ConfigurationError) {
    self.providers = providers
    var pools: [GatewayPool] = []
    do {
      let configurations = try providers.apns.map(Self.apns)
      apns =
        configurations.isEmpty
        ? nil
        : try APNsSender(
          configurations, group: MultiThreadedEventLoopGroup.singleton, clock: clock,
          logger: logger, metrics: metrics)
      if let apns { pools += Self.pools(apns, configurations) }
      let environment = SenderEnvironment(clock: clock, metrics: metrics, logger: logger)
      fcm = try providers.fcm.map { try FCMSender(Self.fcm($0), environment: environment) }
      for (entry, sender) in zip(providers.fcm, fcm) {
        let project = entry.project ?? ""
        let isOnly = providers.fcm.count == 1
        pools.append(
          GatewayPool(name: entry.name, lane: .fcm, sender: sender, statistics: sender.statistics) {
            guard $0.provider == .fcm else { return false }
            return isOnly && ($0.topic.isEmpty || project.isEmpty) || $0.topic == project
          })
      }
      webPush = try providers.webPush.map {
        try WebPushSender(Self.webPush($0), environment: environment)
      }
      // There is one at most: see `PushProviders`.
      if let sender = webPush.first {
        pools.append(
          GatewayPool(
            name: providers.webPush[0].name, lane: .webPush, sender: sender,
            statistics: sender.statistics
          ) { $0.provider == .webPush })
      }
    } catch {
      throw Self.problem(error)
    }
    for index in pools.indices {
      pools[index].apps = providers.apps(ofEntry: pools[index].name).map { Set($0) }
    }
    self.pools = pools
  }

  private static func pools(_ sender: APNsSender, _ all: [APNsConfiguration]) -> [GatewayPool] {
    all.compactMap { configuration in
      guard let own = sender.statistics.first(where: { $0.name == configuration.name }) else {
        return nil
      }
      let environment = configuration.environment
      let bundles = Set(configuration.topics.map(APNsConfiguration.bundle))
      return GatewayPool(
        name: configuration.name,
        lane: environment == .production ? .apnsProduction : .apnsSandbox, sender: sender,
        statistics: own
      ) { token in
        guard token.provider == .apns, bundles.contains(APNsConfiguration.bundle(of: token.topic))
        else { return false }
        let isSandbox = token.environment == "sandbox" || token.environment == "development"
        return isSandbox == (environment == .sandbox)
      }
    }
  }

  // MARK: Reading keys

  private static func apns(_ entry: PushProviders.APNs) throws -> APNsConfiguration {
    let pem = try text(entry.keyFile, entry.name)
    var configuration = APNsConfiguration(
      name: entry.name,
      credentials: try APNsCredentials(team: entry.team, keyID: entry.key, pem: pem),
      environment: entry.environment == "sandbox" ? .sandbox : .production, topics: entry.topics)
    if let place = entry.endpoint.flatMap(PushProviders.hostAndPort) {
      (configuration.host, configuration.port) = (place.host, place.port)
    }
    if let seconds = entry.voipKeepSeconds {
      configuration.limits.voipKeep = .seconds(Int64(seconds))
    }
    if let caFile = entry.caFile {
      configuration.extraTrustRootsPEM = [try text(caFile, entry.name)]
    }
    return configuration
  }

  private static func fcm(_ entry: PushProviders.FCM) -> FCMConfiguration {
    var out = FCMConfiguration(name: entry.name, serviceAccountFile: entry.keyFile)
    if let project = entry.project { out.project = project }
    if let endpoint = entry.endpoint { out.endpoint = endpoint }
    out.tokenEndpoint = entry.tokenEndpoint
    out.caFile = entry.caFile
    return out
  }

  private static func webPush(_ entry: PushProviders.WebPush) -> WebPushConfiguration {
    var out = WebPushConfiguration(
      name: entry.name, keyFile: entry.keyFile, subject: entry.subject)
    out.furtherHosts = entry.furtherHosts ?? []
    out.caFile = entry.caFile
    out.allowsPrivateAddresses = entry.allowsPrivateAddresses ?? false
    return out
  }

  private struct Unreadable: Error, CustomStringConvertible { var description: String }

  /// The error names the file, never its content.
  /// - Throws: `Unreadable`.
  private static func text(_ path: String, _ name: String) throws -> String {
    guard let data = try? Data(contentsOf: URL(filePath: path)), data.count <= 1 << 20,
      let text = String(data: data, encoding: .utf8)
    else { throw Unreadable(description: "\(name): the file \(path) cannot be read") }
    return text
  }

  private static func problem(_ error: any Error) -> ConfigurationError {
    ConfigurationError(
      setting: "pushProviders", value: nil, problem: "\(error)",
      remedy: "docs/configuration.md says what each entry needs.")
  }

  /// Reads every key without connecting: a sender for Apple would connect at once.
  /// - Throws: `ConfigurationError`.
  static func check(
    _ providers: PushProviders, clock: ClusterClock, logger: Logger
  ) async throws(ConfigurationError) {
    do { _ = try providers.apns.map(Self.apns) } catch { throw problem(error) }
    let senders = try PushSenders(
      providers.withoutAPNs, clock: clock, metrics: MetricsRegistry(), logger: logger)
    for pool in senders.pools { await pool.sender.close() }
  }

  // MARK: New keys

  /// Reads all key files again. A sender whose new key is not good keeps its former one.
  /// - Returns: what went wrong, a sentence each.
  func reload() -> [String] {
    var problems: [String] = []
    func attempt(_ body: () throws -> Void) {
      do { try body() } catch { problems.append("\(error)") }
    }
    for entry in providers.apns { attempt { try apns?.update(try Self.apns(entry)) } }
    for (entry, sender) in zip(providers.fcm, fcm) {
      attempt { try sender.update(Self.fcm(entry)) }
    }
    for (entry, sender) in zip(providers.webPush, webPush) {
      attempt { try sender.update(Self.webPush(entry)) }
    }
    return problems
  }
}
