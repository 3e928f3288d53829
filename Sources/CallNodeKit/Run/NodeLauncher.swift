internal import CallAuth
internal import CallBus
internal import CallEdge
internal import CallTelemetry
internal import FoundationEssentials
internal import Logging
internal import NATSBus

/// Runs a node from its command line, or checks what a node would be given.
struct NodeLauncher {
  var roles: NodeRoles
  var bus: BusChoice
  var flags: [SettingKey: String]
  /// The configuration file as given by flag.
  var file: String?

  /// - Throws: `ConfigurationError`, `StartError`.
  func run() async throws {
    let inputs = try inputs()
    let configuration = inputs.configuration
    LogSetup.bootstrap(level: configuration.logLevel, format: configuration.logFormat)
    var logger = Logger(label: "callnode")
    logger[.node] = "\(configuration.nodeID)"
    for name in inputs.settings.unknownEnvironment {
      logger.notice(
        "environment variable is no setting and has no effect", metadata: .keys([.key: "\(name)"]))
    }
    let runner = NodeRunner(inputs: inputs, roles: roles, logger: logger)
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

  /// As `run`, without starting anything: reads every file that the roles need, and no other.
  /// - Throws: `ConfigurationError` where `run` would refuse to start.
  func check() async throws(ConfigurationError) -> ResolvedSettings {
    let inputs = try inputs()
    if let providers = inputs.providers {
      try await PushSenders.check(
        providers, clock: ClusterClock(wallMicroseconds: CalendarTime.nowMilliseconds() * 1000),
        logger: Logger(label: "config"))
    }
    return inputs.settings
  }

  /// Checks settings without knowing the role that they are for, and so without the roles' files.
  /// - Throws: `ConfigurationError`.
  static func check(
    flags: [SettingKey: String], file: String?
  ) throws(ConfigurationError) -> ResolvedSettings {
    let settings = try settings(flags: flags, file: file)
    try settings.checkAccess(try settings.node(for: nil, generatedNodeID: ""))
    return settings
  }

  private func inputs() throws(ConfigurationError) -> NodeInputs {
    let settings = try Self.settings(flags: flags, file: file)
    let configuration = try settings.node(
      for: roles, generatedNodeID: Self.generatedNodeID(roles))
    if bus == .nats { try settings.checkAccess(configuration) }
    var inputs = NodeInputs(settings: settings, configuration: configuration)
    if let path = configuration.keysFile {
      do throws(ConfigurationError) {
        inputs.keys = try settings.keys(path)
      } catch {
        // All roles may share a file of settings, and a push gateway needs the keys for webhooks only.
        guard roles == .push, configuration.pushProvidersFile != nil else { throw error }
        inputs.keysProblem = error
      }
    }
    if roles.hasEdge {
      inputs.tls = try settings.tls(configuration)
      inputs.turn = try settings.turn(configuration)
    }
    if roles.hasPush, let path = configuration.pushProvidersFile {
      inputs.providers = try PushProviders.read(
        path: path, origin: settings.origin(of: "pushProviders"))
    }
    return inputs
  }

  /// The settings of this process's flags and environment and of the file, each checked by itself.
  private static func settings(
    flags: [SettingKey: String], file: String?
  ) throws(ConfigurationError) -> ResolvedSettings {
    let environment = ProcessInfo.processInfo.environment
    let path = file ?? environment["CALLMESH_CONFIG"]
    let read = path?.isEmpty == false ? try path.map(ConfigurationFile.read(path:)) : nil
    return try ResolvedSettings.resolve(flags: flags, environment: environment, file: read)
  }

  private static func generatedNodeID(_ roles: NodeRoles) -> String {
    let name = ProcessInfo.processInfo.hostName
    let host = name.prefix { $0 != "." }.filter { $0.isASCII && ($0.isLetter || $0.isNumber) }
    let random = String(UInt32.random(in: 0...UInt32.max), radix: 36)
    return "\(roles.rawValue)-\(host.isEmpty ? "host" : String(host.prefix(32)))-\(random)"
  }
}

/// Everything that a node is given: its settings, and the files that its roles need.
struct NodeInputs {
  let settings: ResolvedSettings
  let configuration: NodeConfiguration
  /// Set where settings name a file of keys that can be read.
  var keys: AppKeys?
  /// Why a push gateway runs without keys that settings name.
  var keysProblem: ConfigurationError?
  /// Set where an edge speaks TLS.
  var tls: EdgeTLS?
  /// Set where an edge gives credentials for TURN servers.
  var turn: RelaySecret?
  /// Set where there is a push gateway.
  var providers: PushProviders?
}

/// Reading files that settings name. An error names the setting and its origin.
extension ResolvedSettings {
  /// Checks the files for NATS. The library would refuse them later, without naming the setting.
  fileprivate func checkAccess(_ configuration: NodeConfiguration) throws(ConfigurationError) {
    do {
      try configuration.natsAccess.check()
    } catch {
      let key = SettingKey(rawValue: error.part.rawValue)
      throw ConfigurationError([problem(key, error.description, nil)])
    }
  }

  fileprivate func keys(_ path: String) throws(ConfigurationError) -> AppKeys {
    do {
      return try AppKeys.load(path: path)
    } catch {
      let remedy = "\(error.remedy). " + (Setting.of("keysFile")?.remedy ?? "")
      throw ConfigurationError([problem("keysFile", error.what, remedy)])
    }
  }

  /// nil where there are no TURN servers.
  fileprivate func turn(_ configuration: NodeConfiguration) throws(ConfigurationError)
    -> RelaySecret?
  {
    guard let file = configuration.turnSecretFile else { return nil }
    do {
      return try RelaySecret(file: file)
    } catch {
      throw ConfigurationError([problem("turnSecretFile", error.what, error.remedy)])
    }
  }

  /// nil where the edge speaks no TLS.
  fileprivate func tls(_ configuration: NodeConfiguration) throws(ConfigurationError) -> EdgeTLS? {
    guard let certificate = configuration.tlsCertificate, let key = configuration.tlsKey else {
      return nil
    }
    do {
      return try EdgeTLS(certificateFile: certificate, keyFile: key)
    } catch {
      let key: SettingKey = error.part == .certificate ? "tlsCertificate" : "tlsKey"
      throw ConfigurationError([problem(key, error.what, error.remedy)])
    }
  }
}
