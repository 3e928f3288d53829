package import CallAuth
package import CallClient
import FoundationEssentials

/// A command line that makes sense.
package struct RunPlan: Sendable {
  package enum Target: Sendable {
    case local(LocalClusterOptions)
    case edges([String], keys: AppKeys, app: String)
  }
  package var target: Target
  package var settings: RunSettings
  package var scenario: Scenario
  /// Candidates of each side of every call; 0: what the scenario says.
  package var signals: Int
  package var unregisteredShare: Double
  package var wireProtocol: WireProtocol
  package var tokenLifetimeSeconds: Int64
  package var rampPerSecond: Double?
  package var jsonPath: String?
  package var percentilePath: String?
  package var search: Search?
  package var chaos: ChaosPlan?
  package var sleep: SleepOptions?
  package var hostile: HostilePlan?
  /// Whom devices believe to be an edge, where the edges are not ours.
  package var trust = EdgeTrust.system
  /// The key file, with ``Target/edges(_:keys:app:)``.
  package var keysPath: String?
  package var summarySeconds: Double?
  package var checksGrowth = false
  package var keepsFiles: Bool
  package var isVerbose: Bool

  package struct Search: Sendable {
    package var stageSeconds: Double
    /// Microseconds.
    package var ringP99Max: UInt64
  }

  /// - Throws: ``SetupError`` that names option, value and remedy.
  package init(_ command: LoadCommand, seed: UInt64) throws {
    try Self.check(command)
    scenario = try Self.scenario(command.scenario)
    if !command.chaos.isEmpty { chaos = try Self.chaosPlan(command) }
    sleep = try Self.sleepOptions(command)
    hostile = try Self.hostilePlan(command)
    keysPath = command.keys
    trust = try Self.trust(command)
    target = command.edge.isEmpty ? try Self.localTarget(command) : try Self.edgeTarget(command)
    wireProtocol = command.protocol
    signals = command.signals
    unregisteredShare = command.unregistered.value
    tokenLifetimeSeconds = Int64(command.tokenLifetime.seconds)
    summarySeconds = command.summary?.seconds
    checksGrowth = command.checkGrowth
    rampPerSecond = command.ramp
    jsonPath = command.json
    percentilePath = command.hgrm
    keepsFiles = command.keep
    isVerbose = command.verbose
    if command.findMax {
      search = Search(
        stageSeconds: command.stage.seconds,
        ringP99Max: UInt64(min(command.ringP99Max.seconds, 1e6) * 1e6))
    }
    settings = RunSettings()
    settings.devices = command.devices
    settings.devicesPerUser = command.devicesPerUser
    settings.callsPerSecond = command.rate
    settings.durationSeconds = command.findMax ? command.stage.seconds : command.duration.seconds
    if let hostile {
      settings.durationSeconds = hostile.attackSeconds + hostile.recoverySeconds
      settings.attacks = hostile.rounds.map(\.name).joined(separator: ",")
    }
    settings.scenario = scenario.name
    settings.protocolName = command.protocol.rawValue
    settings.seed = seed
    switch target {
    case .local(let options):
      (settings.coordinators, settings.edges) = (options.coordinators, options.edges)
      settings.tls = options.tls
      settings.natsServers = options.natsServers
      settings.pushGateways = options.pushGateways
      settings.sleepingShare = sleep?.share ?? 0
      settings.chaos = chaos?.description ?? ""
      settings.otherCallnode = options.otherCallnodePath
    case .edges(let urls, let keys, _):
      settings.edgeURLs = urls
      if hostile?.needsOtherApp == true, keys.appNames.count < 2 {
        throw SetupError(
          "--hostile app-flood: needs a second app in --keys \(command.keys ?? ""); add one")
      }
    }
    for path in [jsonPath, percentilePath].compactMap({ $0 }) { try Self.checkWritable(path) }
  }

  private static func check(_ command: LoadCommand) throws {
    func need(_ holds: Bool, _ option: String, _ value: Any, _ remedy: String) throws {
      if !holds { throw SetupError("\(option) \(value): \(remedy)") }
    }
    try need(
      (1...Roster.devicesPerUserMax).contains(command.devicesPerUser), "--devices-per-user",
      command.devicesPerUser, "a user has 1 to \(Roster.devicesPerUserMax) devices")
    try need(
      (0...100).contains(command.signals), "--signals", command.signals,
      "the cluster keeps 128 for one side; give at most 100")
    try need(
      command.devices >= 2 * command.devicesPerUser && command.devices <= 1_000_000, "--devices",
      command.devices,
      "give at least \(2 * command.devicesPerUser), so that there are two users "
        + "(of \(command.devicesPerUser) devices each), and at most 1,000,000")
    try need(
      (1...90 * 86_400).contains(command.tokenLifetime.seconds), "--token-lifetime",
      "\(command.tokenLifetime.seconds)s",
      "give 1s to 2160h, and not more than the edges' maxTokenAge")
    try need(
      command.rate.isFinite && command.rate > 0 && command.rate <= 100_000, "--rate",
      command.rate, "give calls per second, above 0 and at most 100,000")
    try need(
      command.duration.seconds <= 86_400, "--duration", command.duration, "give at most 24h")
    try need(command.stage.seconds >= 1, "--stage", command.stage, "give at least 1s")
    if let ramp = command.ramp {
      try need(
        ramp.isFinite && ramp > 0, "--ramp", ramp, "give connections per second, above 0")
    }
    for (option, value) in [("--coordinators", command.coordinators), ("--edges", command.edges)] {
      try need((1...64).contains(value), option, value, "give 1 to 64")
    }
    try need(
      [1, 3].contains(command.natsServers), "--nats-servers", command.natsServers,
      "give 1, or 3 that keep each record three times")
    try need(
      (1...4096).contains(command.shards), "--shards", command.shards, "give 1 to 4096")
  }

  private static func trust(_ command: LoadCommand) throws -> EdgeTrust {
    let isSecure = command.edge.contains { (try? edgeURL($0))?.hasPrefix("wss://") == true }
    if command.tls, !command.edge.isEmpty {
      throw SetupError("--tls: is for a local cluster; with --edge give wss:// and --ca")
    }
    if command.tls || isSecure, !command.hostile.isEmpty || command.apps > 1 {
      throw SetupError("--hostile: attackers speak no TLS; leave out --tls, or give ws:// edges")
    }
    guard let ca = command.ca else { return .system }
    guard isSecure else { throw SetupError("--ca \(ca): goes with --edge wss://… only") }
    do { return try EdgeTrust(caFile: ca) } catch { throw SetupError("--ca \(error)") }
  }

  private static func chaosPlan(_ command: LoadCommand) throws -> ChaosPlan {
    let plan = try ChaosPlan(command.chaos)
    let text = command.chaos.joined(separator: ",")
    if command.sleeping == nil, text.contains(ChaosKind.killPush.rawValue) {
      throw SetupError("--chaos \(text): only with --sleeping there are push gateways; give both")
    }
    guard command.edge.isEmpty else {
      throw SetupError("--chaos \(text): only a local cluster is disturbed; leave --edge out")
    }
    guard !command.findMax else {
      throw SetupError("--chaos \(text): does not go with --find-max; leave one of them out")
    }
    guard command.duration.seconds >= 5 else {
      throw SetupError(
        "--duration \(command.duration): too short for --chaos; give at least 5s")
    }
    return plan
  }

  /// Nothing where no device sleeps.
  private static func sleepOptions(_ command: LoadCommand) throws -> SleepOptions? {
    guard let share = command.sleeping, share.value > 0 else { return nil }
    func need(_ holds: Bool, _ option: String, _ value: Any, _ remedy: String) throws {
      if !holds { throw SetupError("\(option) \(value): \(remedy)") }
    }
    try need(
      command.edge.isEmpty, "--sleeping", share,
      "callload is the provider of a local cluster only; leave --edge out")
    try need(
      share.value <= 0.9, "--sleeping", share, "callers must be awake; give at most 90%")
    try need(
      command.wakeDelay.seconds <= 1, "--wake-delay", command.wakeDelay,
      "some calls ring for 5s only, and devices may take three times as long; give at most 1s")
    try need(
      command.neverWake.value + command.lateWake.value <= 1, "--never-wake", command.neverWake,
      "with --late-wake \(command.lateWake) it is more than all")
    try need(
      (1...64).contains(command.pushGateways), "--push-gateways", command.pushGateways,
      "give 1 to 64")
    var options = SleepOptions(share: share.value)
    options.wakeDelayMilliseconds = command.wakeDelay.seconds * 1000
    options.neverShare = command.neverWake.value
    options.lateShare = command.lateWake.value
    return options
  }

  private static func nodeSettings(_ command: LoadCommand) throws -> [String: String] {
    var settings: [String: String] = [:]
    for text in command.nodeSetting {
      let parts = text.split(separator: "=", maxSplits: 1)
      guard parts.count == 2, parts[0].allSatisfy({ $0.isASCII && $0.isLetter }) else {
        throw SetupError("--node-setting \(text): give it as key=value, such as leaseTimeout=2s")
      }
      settings[String(parts[0])] = String(parts[1])
    }
    return settings
  }

  private static func scenario(_ text: String) throws -> Scenario {
    if let scenario = Scenario.named(text) { return scenario }
    guard FileManager.default.fileExists(atPath: text) else {
      throw SetupError(
        "--scenario \(text): neither a built-in scenario nor a file; built in are "
          + Scenario.builtInNames.joined(separator: ", "))
    }
    do {
      return try Scenario.load(path: text)
    } catch {
      throw SetupError("--scenario \(text): \(error)")
    }
  }

  private static func localTarget(_ command: LoadCommand) throws -> Target {
    for (option, value) in [("--keys", command.keys), ("--app", command.app)] {
      guard value == nil else {
        throw SetupError(
          "\(option) \(value ?? ""): goes with --edge only; a local cluster makes its own keys")
      }
    }
    // Debian puts it into a folder that is in nobody's PATH but root's.
    let nats =
      command.nats ?? Executables.find("nats-server", also: ["/usr/sbin", "/usr/local/bin"])
    guard let nats else {
      throw SetupError(
        "nats-server is not in PATH; install it (Debian: apt-get install nats-server) "
          + "or say where it is with --nats")
    }
    guard Executables.isExecutable(nats) else {
      throw SetupError("--nats \(nats): no program is there; give the path of nats-server")
    }
    guard let callnode = command.callnode ?? Executables.beside("callnode") else {
      throw SetupError(
        "callnode is not beside callload; build it (make build) or say where it is with --callnode")
    }
    guard Executables.isExecutable(callnode) else {
      throw SetupError("--callnode \(callnode): no program is there; give the path of callnode")
    }
    let range = PortRange.size()
    if let refusal = PortRange.refusal(
      devices: command.devices, edges: command.edges, range: range)
    {
      throw SetupError(refusal)
    }
    var options = LocalClusterOptions(natsPath: nats, callnodePath: callnode)
    options.otherCallnodePath = try otherCallnode(command)
    options.coordinators = command.coordinators
    options.edges = command.edges
    options.natsServers = command.natsServers
    if try Self.sleepOptions(command) != nil { options.pushGateways = command.pushGateways }
    options.shards = command.shards
    options.tls = command.tls
    if try Self.hostilePlan(command) != nil {
      options.otherApps = ["hostile"]
      options.hasStandardLimits = true
    }
    options.nodeSettings = try nodeSettings(command)
    options.callctlPath = Executables.beside("callctl")
    if !command.chaos.isEmpty {
      options.hasRelays = try ChaosPlan(command.chaos).needsRelays
      guard options.callctlPath != nil else {
        throw SetupError("--chaos needs callctl beside callload, to see who owns what; build it")
      }
    }
    return .local(options)
  }

  private static func otherCallnode(_ command: LoadCommand) throws -> String? {
    guard let path = command.otherCallnode else { return nil }
    guard !command.chaos.isEmpty else {
      throw SetupError(
        "--other-callnode \(path): no node is started again; add --chaos rolling-restart=10s, or another"
      )
    }
    guard Executables.isExecutable(path) else {
      throw SetupError("--other-callnode \(path): no program is there; give the path of callnode")
    }
    return path
  }

  private static func edgeTarget(_ command: LoadCommand) throws -> Target {
    let urls = try command.edge.map(edgeURL)
    guard let path = command.keys else {
      throw SetupError("--edge needs --keys FILE, the key file of the edges, to sign tokens with")
    }
    let keys: AppKeys
    do {
      keys = try AppKeys.load(path: path)
    } catch {
      throw SetupError("--keys \(error)")
    }
    let names = keys.appNames
    guard let app = command.app ?? (names.count == 1 ? names[0] : nil) else {
      throw SetupError(
        "--keys \(path) has several apps; choose one with --app: \(names.joined(separator: ", "))")
    }
    guard names.contains(app) else {
      throw SetupError(
        "--app \(app): not in \(path), which has \(names.joined(separator: ", "))")
    }
    return .edges(urls, keys: keys, app: app)
  }

  /// `ws://host:port` or `wss://host:port`, also where it was given as `http://` or `https://`; without a scheme `ws`.
  package static func edgeURL(_ text: String) throws -> String {
    var rest = text[...]
    var scheme = "ws://"
    for (given, meant) in [
      ("ws://", "ws://"), ("http://", "ws://"), ("wss://", "wss://"), ("https://", "wss://"),
    ] where text.hasPrefix(given) {
      rest = text.dropFirst(given.count)
      scheme = meant
    }
    let authority = rest.prefix { $0 != "/" }
    guard let colon = authority.lastIndex(of: ":"), colon != authority.startIndex,
      let port = UInt16(authority[authority.index(after: colon)...]), port > 0,
      !rest.contains("://")
    else { throw SetupError("--edge \(text): give it as ws://host:port or wss://host:port") }
    return scheme + (rest.hasSuffix("/") ? rest.dropLast() : rest)
  }

  /// Better now than after a run of minutes.
  private static func checkWritable(_ path: String) throws {
    let existed = FileManager.default.fileExists(atPath: path)
    guard
      existed
        ? FileManager.default.isWritableFile(atPath: path)
        : FileManager.default.createFile(atPath: path, contents: nil)
    else { throw SetupError("\(path): cannot be written; choose another file") }
    if !existed { try? FileManager.default.removeItem(atPath: path) }
  }
}
