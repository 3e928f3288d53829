import CallAuth
import CallProcesses
import Foundation
import Synchronization

/// A cluster over several hosts: on each a nats-server of one replicated JetStream, a coordinator and
/// an edge.
final class HostCluster: Sendable {
  let network: HostNetwork
  let keys: AppKeys
  private let folder: TemporaryFolder
  private let processes = Mutex<[String: ChildProcess]>([:])

  private init(_ network: HostNetwork) throws {
    self.network = network
    folder = try TemporaryFolder("callmesh-hosts")
    let (keys, json) = AppKeys.generateDevelopment(app: "demo")
    self.keys = keys
    try folder.write(json, to: "keys.json")
  }

  static func start(hosts: Int) async throws -> HostCluster {
    let cluster = try HostCluster(HostNetwork(hosts: hosts))
    do {
      for host in 0..<hosts { try cluster.startNATS(host) }
      for host in 0..<hosts {
        try cluster.startNode(
          "coordinator", host,
          ["--journal-replicas", "\(hosts)", "--keys-file", cluster.folder.file("keys.json")])
      }
      for host in 0..<hosts {
        try cluster.startNode(
          "edge", host,
          [
            "--host", "0.0.0.0", "--port", "8080", "--keys-file", cluster.folder.file("keys.json"),
            "--drain-seconds", "1", "--metrics-host", "0.0.0.0", "--metrics-port", "9121",
          ])
      }
      for host in 0..<hosts { try await cluster.waitUntilReady(host) }
    } catch {
      cluster.stop()
      throw error
    }
    return cluster
  }

  private func startNATS(_ host: Int) throws {
    let routes = (0..<network.count).map { "\"nats://\(network.peerAddress($0)):6222\"" }
    let configuration = """
      server_name: host\(host)
      host: 0.0.0.0
      port: 4222
      jetstream { store_dir: "\(folder.file("store\(host)"))" }
      cluster {
        name: hosts
        host: 0.0.0.0
        port: 6222
        routes: [\(routes.joined(separator: ", "))]
      }

      """
    try folder.write(configuration, to: "nats\(host).conf")
    try start(
      "nats\(host)", host, Executables.natsServer(), ["-c", folder.file("nats\(host).conf")])
  }

  /// Nodes use the server of their own host, and know the others. Calls wait two minutes for devices that look for
  /// another edge: how fast they find it depends on the machine, and no test here is about that.
  private func startNode(_ role: String, _ host: Int, _ arguments: [String]) throws {
    let hosts = (0..<network.count).map { (host + $0) % network.count }
    let urls = hosts.map { "nats://\(network.peerAddress($0)):4222" }
    try start(
      "\(role)\(host)", host, try TestCluster.program("callnode"),
      [
        role, "--cluster", "hosts", "--node-id", "\(role)-\(host)", "--nats-url",
        urls.joined(separator: ","), "--shard-count", "8", "--connect-grace", "2m",
        "--resume-grace-ringing", "2m",
      ] + arguments)
  }

  private func start(_ name: String, _ host: Int, _ program: String, _ arguments: [String]) throws {
    let command = network.command(host, program, arguments)
    let process = try ChildLauncher.startNow(
      ChildCommand(
        name: name, executable: command[0], arguments: Array(command.dropFirst()),
        logPath: folder.file("\(name).log")))
    processes.withLock { $0[name] = process }
  }

  /// Ends all processes and removes hosts and files.
  func stop() {
    for process in processes.withLock({ Array($0.values) }) { process.killNow() }
    network.remove()
    folder.remove()
  }

  /// The edges' addresses, as devices reach them; the given host's first.
  func edges(from first: Int) -> [String] {
    (0..<network.count).map { "ws://\(network.address((first + $0) % network.count)):8080" }
  }

  func log(_ name: String) -> String {
    (try? String(contentsOfFile: folder.file("\(name).log"), encoding: .utf8)) ?? ""
  }

  var logs: String {
    processes.withLock { Array($0.keys) }.sorted()
      .map { "--- \($0)\n\(log($0).suffix(2000))" }.joined(separator: "\n")
  }

  func waitUntilReady(_ host: Int) async throws {
    var answer = (status: Int32(0), body: "")
    let isReady = await Pause.until(within: .seconds(90), each: 50) {
      answer = await HTTPProbe.get(network.address(host), 9121, "/readyz", seconds: 2)
      return answer.status == 200
    }
    if isReady { return }
    throw TestCluster.Failure(
      description:
        "the edge of host \(host) is not ready: \(answer.status) \(answer.body)\n\(logs)")
  }
}
