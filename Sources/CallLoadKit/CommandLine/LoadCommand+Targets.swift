import CallAuth
import CallProcesses

/// The targets of the load. All methods throw ``SetupError`` that names option, value and remedy.
extension LoadCommand {
  func localCluster(
    _ scenario: Scenario, chaos: ChaosPlan?, sleep: SleepOptions?, hostile: HostilePlan?,
    files: FileLimit
  ) throws -> LocalClusterOptions {
    for (option, value) in [("--keys", remote.keys), ("--app", remote.app)] {
      try need(
        value == nil, option, value ?? "",
        "goes with --edge only; a local cluster makes its own keys")
    }
    // Debian installs it in a folder that only root has in PATH.
    guard
      let nats = local.nats
        ?? Executables.find("nats-server", also: ["/usr/sbin", "/usr/local/bin"])
    else {
      throw SetupError(
        "nats-server is not in PATH; install it (Debian: apt-get install nats-server) "
          + "or say where it is with --nats")
    }
    try needProgram("--nats", nats, "nats-server")
    guard let callnode = local.callnode ?? Executables.beside("callnode") else {
      throw SetupError(
        "callnode is not beside callload; build it (make build) or say where it is with --callnode")
    }
    try needProgram("--callnode", callnode, "callnode")
    var options = LocalClusterOptions(natsPath: nats, callnodePath: callnode)
    options.otherCallnodePath = try restartProgram()
    options.edges = try edgeCount(files)
    options.coordinators = local.coordinators ?? options.coordinators
    options.nodes = local.nodes ?? 0
    options.nearer = local.nearer
    options.natsServers = local.natsServers
    // Nodes with both roles deliver to webhooks themselves.
    let hasWebhooks = hasWebhooks(scenario)
    if sleep != nil || hasWebhooks && options.nodes == 0 {
      options.pushGateways = judged.pushGateways
    }
    options.keepsHistory = readsHistories(scenario)
    options.showsOngoing = judged.ongoing
    options.hasStrictApp = hasStrictApp(scenario)
    options.shards = local.shards
    options.tls = local.tls
    if hostile != nil {
      options.otherApps = ["hostile"]
      options.hasStandardLimits = true
    }
    options.nodeSettings = try nodeSettings()
    options.callctlPath = Executables.beside("callctl")
    if let chaos {
      options.hasRelays = chaos.needsRelays
      guard options.callctlPath != nil else {
        throw SetupError("--chaos needs callctl beside callload, to see who owns what; build it")
      }
    }
    return options
  }

  /// Whether users may send their calls on. A cluster that is already there would keep their rules.
  var forwards: Bool { remote.edge.isEmpty }

  /// Whether the cluster has an app whose users take no second call, for the scenario's parts that need one. Attackers
  /// have a second app of their own, and a node of another version may not know its terms.
  package func hasStrictApp(_ scenario: Scenario) -> Bool {
    forwards && trouble.otherCallnode == nil && trouble.hostile.isEmpty && trouble.apps == 1
      && scenario.parts.contains { $0.kind.hasSecondCall && $0.weight > 0 }
  }

  /// Whether some users read their histories at the end: `--history`, or the scenario where nothing speaks against it.
  package func readsHistories(_ scenario: Scenario) -> Bool {
    judged.history || scenario.history && judgesMore
  }

  /// Whether the app has a webhook: `--webhooks`, or the scenario where nothing speaks against it.
  package func hasWebhooks(_ scenario: Scenario) -> Bool {
    judged.webhooks || scenario.webhooks && judgesMore
  }

  /// Whether what a scenario wants to be judged beside the calls can be. A store with histories and events grows for
  /// days.
  private var judgesMore: Bool {
    forwards && trouble.otherCallnode == nil && trouble.hostile.isEmpty && trouble.apps == 1
      && !load.findMax && !output.checkGrowth && load.slice.count == 1
  }

  private func needProgram(_ option: String, _ path: String, _ name: String) throws {
    try need(
      Executables.isExecutable(path), option, path, "no program is there; give the path of \(name)")
  }

  private func restartProgram() throws -> String? {
    guard let path = trouble.otherCallnode else { return nil }
    try need(
      !trouble.chaos.isEmpty, "--other-callnode", path,
      "no node is started again; add --chaos rolling-restart=10s, or another")
    try needProgram("--other-callnode", path, "callnode")
    return path
  }

  private func nodeSettings() throws -> [String: String] {
    var settings: [String: String] = [:]
    for text in local.nodeSetting {
      let parts = text.split(separator: "=", maxSplits: 1)
      guard parts.count == 2, parts[0].allSatisfy({ $0.isASCII && $0.isLetter }) else {
        throw SetupError("--node-setting \(text): give it as key=value, such as leaseTimeout=2s")
      }
      settings[String(parts[0])] = String(parts[1])
    }
    return settings
  }

  /// The keys to sign tokens with, and the app that the devices belong to.
  func edgeKeys() throws -> (AppKeys, app: String) {
    guard let path = remote.keys else {
      throw SetupError("--edge needs --keys FILE, the key file of the edges, to sign tokens with")
    }
    let keys: AppKeys
    do {
      keys = try AppKeys.load(path: path)
    } catch {
      throw SetupError("--keys \(error)")
    }
    let names = keys.appNames
    guard let app = remote.app ?? (names.count == 1 ? names[0] : nil) else {
      throw SetupError(
        "--keys \(path) has several apps; choose one with --app: \(names.joined(separator: ", "))")
    }
    guard names.contains(app) else {
      throw SetupError("--app \(app): not in \(path), which has \(names.joined(separator: ", "))")
    }
    return (keys, app)
  }
}
