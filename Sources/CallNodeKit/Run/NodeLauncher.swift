internal import CallAuth
internal import CallBus
internal import CallEdge
internal import CallTelemetry
internal import FoundationEssentials
internal import Glibc
internal import Logging
internal import NATSBus

/// From the command line to a running node, and to the exit status.
struct NodeLauncher {
  var roles: NodeRoles
  var bus: BusChoice
  var flags: [SettingKey: String]
  /// The configuration file as given by flag.
  var file: String?

  /// - Throws: `ConfigurationError`, `StartError`.
  func run() async throws {
    let (settings, configuration, keys, tls) = try prepare()
    let providers = roles.hasPush ? try Self.providers(configuration, settings) : nil
    LogSetup.bootstrap(level: configuration.logLevel, format: configuration.logFormat)
    var logger = Logger(label: "callnode")
    logger[.node] = "\(configuration.nodeID)"
    for name in settings.unknownEnvironment {
      logger.notice(
        "environment variable is no setting and has no effect", metadata: .keys([.key: "\(name)"]))
    }
    let runner = NodeRunner(
      configuration: configuration, roles: roles, keys: keys, tls: tls,
      providers: providers, logger: logger)
    let bus = bus
    try await SignalWatch.run(logger: logger) { [logger] watch in
      switch bus {
      case .inProcess:
        try await runner.run(on: { _ in InProcessBus() }, busName: "in-process", watch)
      case .nats:
        let bus = BusWatch { reason in
          logger.error("the bus is closed for good", metadata: .keys([.error: "\(reason)"]))
        }
        let connect = { @Sendable [roles] in
          try await NATSBus.connect(
            configuration, role: roles.rawValue, wait: $0, watch: bus, logger)
        }
        try await runner.run(
          on: connect, busName: NATSURL.withoutCredentials(configuration.natsURL), beside: [bus],
          watch)
      }
    }
  }

  /// Everything that can be wrong with what the node was told, but for the file of push providers.
  private func prepare() throws(ConfigurationError)
    -> (ResolvedSettings, NodeConfiguration, AppKeys?, EdgeTLS?)
  {
    let settings = try Self.settings(flags: flags, file: file)
    let configuration = try settings.node(
      for: roles, generatedNodeID: Self.generatedNodeID(roles))
    if bus == .nats { try Self.checkAccess(configuration, settings) }
    guard roles.hasEdge || roles.hasCoordinator, let path = configuration.keysFile else {
      return (settings, configuration, nil, nil)
    }
    let keys = try Self.keys(path, settings)
    return (
      settings, configuration, keys, roles.hasEdge ? try Self.tls(configuration, settings) : nil
    )
  }

  /// As `run`, without starting anything: reads every file that the roles need, and no other.
  /// - Throws: `ConfigurationError` where `run` would refuse to start.
  func check() async throws(ConfigurationError) -> ResolvedSettings {
    let (settings, configuration, _, _) = try prepare()
    if roles.hasPush, let providers = try Self.providers(configuration, settings) {
      try await PushSenders.check(
        providers, clock: ClusterClock(wallMicroseconds: CalendarTime.nowMilliseconds() * 1000),
        logger: Logger(label: "config"))
    }
    return settings
  }

  /// What can be said of settings without knowing whose they are: no role's files are asked for.
  static func check(
    flags: [SettingKey: String], file: String?
  ) throws(ConfigurationError) -> ResolvedSettings {
    let settings = try settings(flags: flags, file: file)
    try checkAccess(try settings.node(for: nil, generatedNodeID: ""), settings)
    return settings
  }

  /// The settings of this process's flags and environment and of the file, each checked by itself.
  private static func settings(flags: [SettingKey: String], file: String?)
    throws(ConfigurationError)
    -> ResolvedSettings
  {
    let environment = ProcessInfo.processInfo.environment
    let path = file ?? environment["CALLMESH_CONFIG"]
    let read = path?.isEmpty == false ? try path.map(ConfigurationFile.read(path:)) : nil
    return try ResolvedSettings.resolve(flags: flags, environment: environment, file: read)
  }

  /// Checks the files for NATS, which the library would refuse later and without naming the setting.
  private static func checkAccess(
    _ configuration: NodeConfiguration, _ settings: ResolvedSettings
  ) throws(ConfigurationError) {
    do {
      try configuration.natsAccess.check()
    } catch {
      let key = SettingKey(rawValue: error.part.rawValue)
      throw ConfigurationError([settings.problem(key, error.description, nil)])
    }
  }

  private static func providers(_ configuration: NodeConfiguration, _ settings: ResolvedSettings)
    throws(ConfigurationError) -> PushProviders?
  {
    guard let path = configuration.pushProvidersFile else { return nil }
    return try PushProviders.read(path: path, origin: settings.origin(of: "pushProviders"))
  }

  private static func keys(_ path: String, _ settings: ResolvedSettings) throws(ConfigurationError)
    -> AppKeys
  {
    do {
      return try AppKeys.load(path: path)
    } catch {
      let remedy = "\(error.remedy). " + (Setting.of("keysFile")?.remedy ?? "")
      throw ConfigurationError([settings.problem("keysFile", error.what, remedy)])
    }
  }

  /// nil where the edge speaks no TLS.
  private static func tls(_ configuration: NodeConfiguration, _ settings: ResolvedSettings)
    throws(ConfigurationError) -> EdgeTLS?
  {
    guard let certificate = configuration.tlsCertificate, let key = configuration.tlsKey else {
      return nil
    }
    do {
      return try EdgeTLS(certificateFile: certificate, keyFile: key)
    } catch {
      let key: SettingKey = error.part == .certificate ? "tlsCertificate" : "tlsKey"
      throw ConfigurationError([settings.problem(key, error.what, error.remedy)])
    }
  }

  private static func generatedNodeID(_ roles: NodeRoles) -> String {
    var buffer = [CChar](repeating: 0, count: 256)
    let known = gethostname(&buffer, 255) == 0
    let bytes = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
    let name = known ? String(decoding: bytes, as: UTF8.self) : ""
    let host = name.prefix { $0 != "." }.filter { $0.isASCII && ($0.isLetter || $0.isNumber) }
    let random = String(UInt32.random(in: 0...UInt32.max), radix: 36)
    return "\(roles.rawValue)-\(host.isEmpty ? "host" : String(host.prefix(32)))-\(random)"
  }
}
