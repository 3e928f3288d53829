import CallProcesses
import FoundationEssentials
import NIOCore

struct ClusterStarter {
  let options: LocalClusterOptions
  let folder: TemporaryFolder
  let processes: ProcessSet
  let isWanted: @Sendable () -> Bool

  func startNATS() async throws -> [NATSServerProcess] {
    let count = options.natsServers
    var setup = NATSServerProcess.Setup(
      program: options.natsPath, folder: folder, processes: processes)
    // With five processes on two CPUs its threads would mostly wake one another.
    setup.environment["GOMAXPROCS"] = "\(Self.processorShare(of: 2 * count))"
    let servers = try await NATSServerProcess.launch(count, setup) { number, routes in
      guard count > 1 else { return [] }
      // A client that discovered servers by itself would bypass its relays.
      return [
        "--cluster_name", "callload", "--cluster", routes[number], "--no_advertise", "--routes",
        routes.joined(separator: ","),
      ]
    }
    for server in servers {
      try await wait(
        for: "\(server.process.name) to be ready (port \(server.port))", on: server.process
      ) {
        await server.monitor.isReady(servers: count)
      }
    }
    return servers
  }

  /// Starts coordinators and edges, or nodes that are both.
  func startNodes(
    _ nats: [NATSServerProcess], say: (String) -> Void
  ) async throws -> (coordinators: [NodeProcess], edges: [NodeProcess]) {
    if options.nodes > 0 {
      say("starting \(options.nodes) nodes, each an edge and a coordinator")
      let nodes = try await startNodes(.node, options.nodes, nats)
      return (nodes, nodes)
    }
    say("starting \(options.coordinators) coordinators and \(options.edges) edges")
    return (
      try await startNodes(.coordinator, options.coordinators, nats),
      try await startNodes(.edge, options.edges, nats)
    )
  }

  /// Starts the nodes of a role. Gateways need ``LocalPushProvider/providersFile`` in the folder by then.
  func startNodes(
    _ role: ProcessRole, _ count: Int, _ nats: [NATSServerProcess]
  ) async throws -> [NodeProcess] {
    let ports = try FreePorts.reserve(2 * count)
    var members: [NodeProcess] = []
    for index in 0..<count {
      let port = role == .edge || role == .node ? ports[count + index] : 0
      members.append(
        try await startNode(
          role, "\(role.rawValue)-\(index + 1)", port: port, metricsPort: ports[index], nats))
      // Creating replicated streams takes seconds; the first coordinator does it alone.
      if role == .coordinator || role == .node, options.natsServers > 1, index == 0 {
        let first = members[0]
        try await wait(for: "\(first.name) to make its streams", on: first.process) {
          await first.servedShards() ?? 0 > 0
        }
      }
    }
    return members
  }

  private func arguments(_ role: ProcessRole, port: Int) -> [String] {
    let ofCoordinators = [
      "--shard-count", "\(options.shards)", "--journal-replicas", "\(options.natsServers)",
    ]
    let share = Self.processorShare(of: options.nodes > 0 ? options.nodes : options.edges)
    let ofEdges = ["--host", options.edgeHost, "--port", "\(port)", "--event-loops", "\(share)"]
    return switch role {
    case .coordinator: ["coordinator"] + ofCoordinators
    case .edge: ["edge"] + ofEdges
    case .node: ["all"] + ofCoordinators + ofEdges
    case .push: ["push", "--push-providers", folder.file(LocalPushProvider.providersFile)]
    case .nats: []
    }
  }

  private func startNode(
    _ role: ProcessRole, _ id: String, port: Int, metricsPort: Int, _ nats: [NATSServerProcess]
  ) async throws -> NodeProcess {
    var relays: [TCPRelay] = []
    if options.hasRelays {
      for server in nats { relays.append(try await TCPRelay(to: server.port)) }
    }
    let urls = relays.isEmpty ? nats.map(\.url) : relays.map { "nats://127.0.0.1:\($0.port)" }
    let common = [
      "--nats-url", urls.joined(separator: ","), "--cluster", LocalCluster.name, "--node-id", id,
      "--log-format", "text",
    ]
    var command = ChildCommand(
      name: id, executable: options.callnodePath,
      arguments: arguments(role, port: port) + common,
      logPath: folder.file("\(id).log"))
    command.otherExecutable = options.otherCallnodePath
    // In the environment, since earlier versions do not have all flags.
    command.environment["CALLMESH_METRICS_PORT"] = "\(metricsPort)"
    if options.tls {
      command.environment["CALLMESH_TLS_CERTIFICATE"] = folder.file(LocalCluster.certificateFile)
      command.environment["CALLMESH_TLS_KEY"] = folder.file(LocalCluster.keyFile)
    }
    command.environment[Self.environmentName(of: "keysFile")] = folder.file("keys.json")
    if options.nearer, role == .node {
      command.environment[Self.environmentName(of: "publicUrl")] = options.edgeURL(port: port)
    }
    if options.otherCallnodePath != nil {
      command.environment[Self.environmentName(of: "sessionTickets")] = "offered"
    }
    for (key, value) in options.nodeSettings {
      command.environment[Self.environmentName(of: key)] = value
    }
    let process = try await SupervisedProcess(role, command, in: processes)
    return NodeProcess(process: process, port: port, metricsPort: metricsPort, relays: relays)
  }

  /// `CALLMESH_LEASE_TIMEOUT` for `leaseTimeout`.
  static func environmentName(of key: String) -> String {
    var name = "CALLMESH_"
    for character in key {
      if character.isUppercase { name.append("_") }
      name.append(character.uppercased())
    }
    return name
  }

  /// The number of processors for each of `count` processes; at least one.
  private static func processorShare(of count: Int) -> Int { max(1, System.coreCount / count) }

  func waitUntilReady(_ node: NodeProcess) async throws {
    try await wait(
      for: "\(node.name) to be ready (GET http://127.0.0.1:\(node.metricsPort)/readyz)",
      on: node.process
    ) {
      await node.isReady()
    }
  }

  /// Polls until `isDone`.
  /// - Throws: ``SetupError`` when a process ends or time is up; ``StartGivenUp`` when the run is interrupted.
  private func wait(
    for what: String, on process: SupervisedProcess, until isDone: () async -> Bool
  ) async throws {
    let deadline = ContinuousClock.now + options.startTimeout
    while true {
      if await isDone() { return }
      guard isWanted() else { throw StartGivenUp() }
      if let (dead, end) = processes.firstDeath() {
        throw SetupError(
          "\(dead.name) \(end) while the cluster started; its last words:\n\(dead.logTail())")
      }
      guard ContinuousClock.now < deadline else {
        throw SetupError(
          "waited \(options.startTimeout.components.seconds) s in vain for \(what); "
            + "the last words of \(process.name):\n\(process.process.logTail())")
      }
      try await Task.sleep(for: .milliseconds(20))
    }
  }
}
