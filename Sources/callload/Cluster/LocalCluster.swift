package import CallAuth
import FoundationEssentials
import Glibc
import NIOCore

/// What the local cluster consists of.
package struct LocalClusterOptions: Sendable, Equatable {
  package var coordinators = 2
  package var edges = 2
  package var shards = 64
  package var natsPath: String
  package var callnodePath: String
  /// The app that the devices belong to.
  package var app = "load"
  /// How long one step of the start may take.
  package var patience: Duration = .seconds(30)

  package init(natsPath: String, callnodePath: String) {
    self.natsPath = natsPath
    self.callnodePath = callnodePath
  }
}

/// One nats-server, coordinators and edges on this machine, each a process, on loopback and free
/// ports, with all of their files in one temporary folder.
package struct LocalCluster: Sendable {
  package let natsURL: String
  /// `ws://127.0.0.1:port`, one for each edge.
  package let edgeURLs: [String]
  package let keys: AppKeys
  package let natsVersion: String
  package let nats: ChildProcess
  package let coordinators: [ChildProcess]
  package let edges: [ChildProcess]

  /// Starts all and waits until every edge says that it is ready. Whoever calls ends the processes,
  /// also when this throws.
  /// - Parameters:
  ///   - say: told of each step.
  ///   - isWanted: asked often; once it says no, the start is given up.
  package static func start(
    _ options: LocalClusterOptions, in folder: TemporaryFolder, processes: ProcessSet,
    say: (String) -> Void, isWanted: @escaping @Sendable () -> Bool
  ) async throws -> LocalCluster {
    let starter = Starter(
      options: options, folder: folder, processes: processes, isWanted: isWanted)
    let (keys, json) = AppKeys.generateDevelopment(app: options.app)
    try folder.write(json, to: "keys.json")

    say("starting nats-server")
    let (nats, natsURL) = try await starter.startNATS()
    say("starting \(options.coordinators) coordinators and \(options.edges) edges")
    let coordinators = try await starter.startCoordinators(natsURL: natsURL)
    let (edges, ports) = try await starter.startEdges(natsURL: natsURL)
    say("waiting until the edges are ready")
    for (edge, port) in zip(edges, ports) { try await starter.waitUntilReady(edge, port: port) }
    return LocalCluster(
      natsURL: natsURL, edgeURLs: ports.map { "ws://127.0.0.1:\($0)" }, keys: keys,
      natsVersion: natsVersion(log: nats.logPath), nats: nats, coordinators: coordinators,
      edges: edges)
  }

  /// From the server's own first lines: `Version:  2.9.10`.
  private static func natsVersion(log: String) -> String {
    let text = FileManager.default.contents(atPath: log).map { String(decoding: $0, as: UTF8.self) }
    guard let line = text?.split(separator: "\n").first(where: { $0.contains("Version:") }) else {
      return ""
    }
    return line.split(separator: " ").last.map(String.init) ?? ""
  }
}

/// The run was ended while the cluster was starting.
package struct StartGivenUp: Error {}

/// The steps of a start.
private struct Starter {
  let options: LocalClusterOptions
  let folder: TemporaryFolder
  let processes: ProcessSet
  let isWanted: @Sendable () -> Bool

  func startNATS() async throws -> (ChildProcess, url: String) {
    let ports = folder.file("nats-ports")
    try FileManager.default.createDirectory(
      atPath: ports, withIntermediateDirectories: true)
    try folder.write(
      """
      server_name: callload
      host: 127.0.0.1
      port: -1
      ports_file_dir: "\(ports)"
      jetstream { store_dir: "\(folder.file("nats-store"))" }

      """, to: "nats.conf")
    var command = ChildCommand(
      name: "nats-server", executable: options.natsPath,
      arguments: ["-c", folder.file("nats.conf")], logPath: folder.file("nats-server.log"))
    // Where five processes share two CPUs, its threads mostly wake one another.
    command.environment["GOMAXPROCS"] = "\(Self.processorShare(of: 2))"
    let child = try await processes.start(command)
    var url: String?
    try await wait(for: "nats-server to say its port", on: child) {
      url = Self.natsURL(portsFile: "\(ports)/nats-server_\(child.processID).ports")
      return url != nil
    }
    return (child, url ?? "")
  }

  func startCoordinators(natsURL: String) async throws -> [ChildProcess] {
    var children: [ChildProcess] = []
    for number in 1...max(options.coordinators, 1) {
      let id = "coordinator-\(number)"
      children.append(
        try await startNode(
          id, ["coordinator", "--shard-count", "\(options.shards)"], natsURL: natsURL))
    }
    return children
  }

  /// The machine's processors, shared by so many; at least one.
  private static func processorShare(of count: Int) -> Int { max(1, System.coreCount / count) }

  func startEdges(natsURL: String) async throws -> ([ChildProcess], ports: [Int]) {
    var children: [ChildProcess] = []
    let ports = try FreePorts.find(max(options.edges, 1))
    for (index, port) in ports.enumerated() {
      let words = [
        "edge", "--host", "127.0.0.1", "--port", "\(port)", "--keys-file",
        folder.file("keys.json"), "--event-loops", "\(Self.processorShare(of: ports.count))",
      ]
      children.append(try await startNode("edge-\(index + 1)", words, natsURL: natsURL))
    }
    return (children, ports)
  }

  private func startNode(_ id: String, _ words: [String], natsURL: String) async throws
    -> ChildProcess
  {
    let common = [
      "--nats-url", natsURL, "--cluster", "load", "--node-id", id, "--log-format", "text",
    ]
    return try await processes.start(
      ChildCommand(
        name: id, executable: options.callnodePath, arguments: words + common,
        logPath: folder.file("\(id).log")))
  }

  func waitUntilReady(_ edge: ChildProcess, port: Int) async throws {
    var last: Int?
    func isReady() async -> Bool {
      last = await ReadyProbe.status(host: "127.0.0.1", port: port)
      return last == 200
    }
    func detail() -> String { last.map { "it last answered \($0)" } ?? "it did not answer" }
    try await wait(
      for: "\(edge.name) to be ready (GET http://127.0.0.1:\(port)/readyz)", on: edge,
      detail: detail, until: isReady)
  }

  /// Polls until `isDone`; throws when a process dies, time is up, or the run is not wanted any more.
  private func wait(
    for what: String, on child: ChildProcess, detail: () -> String = { "" },
    until isDone: () async -> Bool
  ) async throws {
    let deadline = ContinuousClock.now + options.patience
    while true {
      if await isDone() { return }
      guard isWanted() else { throw StartGivenUp() }
      if let (dead, end) = processes.firstDeath() {
        throw SetupError(
          "\(dead.name) \(end) while the cluster started; its last words:\n\(dead.logTail())")
      }
      guard ContinuousClock.now < deadline else { throw tooLate(what, child, detail()) }
      try await Task.sleep(for: .milliseconds(20))
    }
  }

  private func tooLate(_ what: String, _ child: ChildProcess, _ detail: String) -> SetupError {
    let more = detail.isEmpty ? "" : ", \(detail)"
    return SetupError(
      "waited \(options.patience.components.seconds) s in vain for \(what)\(more); "
        + "the last words of \(child.name):\n\(child.logTail())")
  }

  /// `{"nats":["nats://127.0.0.1:4222"], …}`
  private static func natsURL(portsFile: String) -> String? {
    struct Ports: Decodable { var nats: [String]? }
    guard let data = FileManager.default.contents(atPath: portsFile),
      let ports = try? JSONDecoder().decode(Ports.self, from: data)
    else { return nil }
    return ports.nats?.first
  }
}

/// Ports of 127.0.0.1 that nobody listens on at this moment.
package enum FreePorts {
  package static func find(_ count: Int) throws -> [Int] {
    var sockets: [Int32] = []
    defer { for socket in sockets { close(socket) } }
    var ports: [Int] = []
    for _ in 0..<count {
      let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      guard descriptor >= 0 else { throw failure() }
      // Held until all are found, so that none comes twice.
      sockets.append(descriptor)
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
      var size = socklen_t(MemoryLayout<sockaddr_in>.size)
      let status = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, size) == 0 && getsockname(descriptor, $0, &size) == 0
        }
      }
      guard status else { throw failure() }
      ports.append(Int(UInt16(bigEndian: address.sin_port)))
    }
    return ports
  }

  private static func failure() -> SetupError {
    SetupError("no free port on 127.0.0.1: \(String(cString: strerror(errno)))")
  }
}
