import CallAuth
import CallCore
import CallProcesses
import CallWire
import Foundation
import Synchronization
import Testing

/// A whole cluster of a test's own: nats-servers with the shipped configuration, coordinators and edges as real
/// processes, each with the rights of its role. `stop` fails the test if NATS has refused one of them anything.
final class TestCluster: Sendable {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// The name in the shipped configuration.
  static let name = "callmesh"

  let ground: NATSGround
  var nats: NATSServerProcess { ground.server }
  let keys: AppKeys
  private let place: TemporaryFolder
  var folder: String { place.path }
  /// The options that every node gets beside the rest.
  private let options: [String]
  private let nodes = Mutex<[String: ChildProcess]>([:])
  private let ports = Mutex<[String: Int]>([:])
  private let devices = Mutex<[TestDevice]>([])

  private init(_ ground: NATSGround, options: [String], settings: String?) throws {
    self.ground = ground
    place = try TemporaryFolder("callmesh-test")
    if let settings { try place.write(settings, to: "settings.json") }
    self.options = options + (settings == nil ? [] : ["--config", place.file("settings.json")])
    let (keys, json) = AppKeys.generateDevelopment(app: "demo")
    self.keys = keys
    try place.write(json, to: "keys.json")
  }

  /// - Parameters:
  ///   - settings: of every node, as JSON. A file serves all roles; a flag has to be one of the role's.
  ///   - waits: until the edges are ready.
  ///   - servers: of NATS; each has the journal.
  static func start(
    coordinators: Int = 2, edges: Int = 2, options: [String] = [], settings: String? = nil,
    waits: Bool = true, servers: Int = 1
  ) async throws -> TestCluster {
    let cluster = try TestCluster(
      await NATSGround(servers: servers), options: options, settings: settings)
    do {
      for number in 0..<coordinators { try cluster.startCoordinator("c\(number + 1)") }
      for number in 0..<edges { try cluster.startEdge("e\(number + 1)") }
      guard waits else { return cluster }
      for number in 0..<edges { try await cluster.waitUntilReady("e\(number + 1)") }
    } catch {
      cluster.stop()
      throw error
    }
    return cluster
  }

  /// Changes what the file of keys says of the app. Nodes read the file again while they run.
  func changeApp(_ change: (inout [String: Any]) -> Void) throws {
    let file = URL(fileURLWithPath: folder + "/keys.json")
    let object = try JSONSerialization.jsonObject(with: Data(contentsOf: file))
    guard var apps = (object as? [String: Any])?["apps"] as? [[String: Any]] else {
      throw Failure(description: "no apps in \(file.path)")
    }
    change(&apps[0])
    try JSONSerialization.data(withJSONObject: ["apps": apps]).write(to: file, options: .atomic)
  }

  func startCoordinator(_ name: String) throws {
    try start(
      name,
      ["coordinator"] + common(name, "coordinator") + [
        "--metrics-port", "\(port(for: Self.operators(name)))", "--keys-file",
        folder + "/keys.json",
      ] + (ground.servers.count > 1 ? ["--journal-replicas", "\(ground.servers.count)"] : []))
  }

  /// An edge that was there before comes back on its ports.
  /// - Parameters:
  ///   - role: `edge`, or `all` for a node that is a coordinator as well.
  ///   - files: how many it may have open; nil: as many as the tests.
  func startEdge(
    _ name: String, role: String = "edge", drainSeconds: Int = 0, files: Int? = nil,
    _ further: [String] = []
  ) throws {
    try start(
      name,
      [role] + common(name, role) + [
        "--host", "127.0.0.1", "--port", "\(port(for: name))", "--keys-file",
        folder + "/keys.json", "--drain-seconds", "\(drainSeconds)", "--metrics-port",
        "\(port(for: Self.operators(name)))",
      ] + further, files: files)
  }

  /// - Parameter providers: the file; nil: the gateway delivers to webhooks only.
  func startGateway(_ name: String, providers: String?, _ further: [String] = []) throws {
    let file =
      providers.map { ["--push-providers", $0] } ?? ["--keys-file", folder + "/keys.json"]
    try start(
      name,
      ["push"] + common(name, "push")
        + ["--metrics-port", "\(port(for: Self.operators(name)))"] + file + further)
  }

  private func port(for name: String) throws -> Int {
    try ports.withLock { ports in
      var port = try ports[name] ?? FreePorts.reserve()
      while ports.contains(where: { $0.key != name && $0.value == port }) {
        port = try FreePorts.reserve()
      }
      ports[name] = port
      return port
    }
  }

  private func common(_ node: String, _ role: String) -> [String] {
    ground.access(role) + ["--cluster", Self.name, "--node-id", node] + options
  }

  private func start(_ name: String, _ arguments: [String], files: Int? = nil) throws {
    var command = ChildCommand(
      name: name, executable: try Executables.built("callnode"), arguments: arguments,
      logPath: place.file("\(name).log"))
    if let files {
      command.arguments =
        ["-c", "ulimit -n \(files) && exec \"$@\"", "sh", command.executable] + arguments
      command.executable = "/bin/sh"
    }
    // Nothing that a former process of this name has said is waited for.
    _ = FileManager.default.createFile(atPath: command.logPath, contents: nil)
    let process = try ChildLauncher.startNow(command)
    nodes.withLock { $0[name] = process }
  }

  /// Names of the nodes that run.
  var running: [String] { nodes.withLock { $0.keys.sorted() } }

  /// Where devices connect.
  func port(_ edge: String) -> Int { ports.withLock { $0[edge]! } }

  /// Where `/metrics` and `/readyz` are.
  func operatorsPort(_ node: String) -> Int { port(Self.operators(node)) }

  private static func operators(_ node: String) -> String { "operators of \(node)" }

  func url(_ edge: String) -> String { "ws://127.0.0.1:\(port(edge))" }

  /// Ends a node gracefully and waits until it is gone. Returns its exit status.
  @discardableResult
  func stop(_ name: String) -> Int32 {
    nodes.withLock { $0.removeValue(forKey: name) }?.stopNow(timeout: .seconds(60)).status ?? -1
  }

  func signal(_ name: String, _ signal: Int32) { nodes.withLock { $0[name] }?.send(signal) }

  func kill(_ name: String) { nodes.withLock { $0.removeValue(forKey: name) }?.killNow() }

  /// Kills both coordinators and starts them anew: whoever takes over has the journal alone.
  func restartCoordinators() throws {
    for name in ["c1", "c2"] { kill(name) }
    for name in ["c1", "c2"] { try startCoordinator(name) }
  }

  /// A device that is attached, and is stopped with the cluster.
  func device(
    _ user: String, _ name: String, edges: [String] = ["e1", "e2"], codec: DeviceCodec = .protobuf,
    wokenFor call: CallID? = nil, wantsHistory: Bool = false
  ) async throws -> TestDevice {
    let device = try await TestDevice(
      keys: keys, edges: edges.map(url), user: user, name, codec: codec,
      wokenFor: call, wantsHistory: wantsHistory)
    devices.withLock { $0.append(device) }
    return device
  }

  /// Ends everything and removes its files.
  func stop() {
    for device in devices.withLock({ $0 }) { device.stop() }
    for name in nodes.withLock({ Array($0.keys) }) { kill(name) }
    for server in ground.servers { server.stop() }
    let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    for file in files where file.hasSuffix(".log") {
      let node = String(file.dropLast(4))
      let refused = log(node).split(separator: "\n").filter { $0.contains("Permitted") }
      if let first = refused.first { Issue.record("NATS refuses \(node): \(first)") }
    }
    place.remove()
  }

  func log(_ name: String) -> String {
    (try? String(contentsOfFile: place.file("\(name).log"), encoding: .utf8)) ?? ""
  }

  /// Waits until an edge sees an owner of every shard.
  func waitUntilReady(_ edge: String) async throws {
    if try await Pause.until(within: .seconds(60), { try await ask(edge, "/readyz").status == 200 })
    {
      return
    }
    throw Failure(
      description:
        "\(edge) is not ready; its log: \(log(edge))\n\(threads(of: edge))\n\(state(of: nats))")
  }

  /// Waits until a coordinator is counted among the owners of shards, and every shard has one. Among the nodes it is
  /// while it starts and has none.
  func waitForShards(of node: String) async throws {
    try await eventually("\(node) has shards") {
      let output = try await callctl("status", "--json", "--once")
      return output.status == 0 && output.text.contains("\"\(node)\" :")
    }
  }

  /// Where each thread of a node waits in the kernel. One that connects to NATS, for instance, has a name of its own.
  private func threads(of name: String) -> String {
    guard let id = nodes.withLock({ $0[name]?.processID }) else { return "no process" }
    let folder = "/proc/\(id)/task"
    let tasks = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    let lines = tasks.sorted().map { task in
      ["comm", "wchan", "syscall"].map { file in
        let text = try? String(contentsOfFile: "\(folder)/\(task)/\(file)", encoding: .utf8)
        return text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? "?"
      }.joined(separator: " ")
    }
    return "its threads:\n" + lines.joined(separator: "\n")
  }

  /// Whether a server of NATS lives and greets, what the nodes say of their connections, and the end of its log.
  private func state(of server: NATSServerProcess) -> String {
    let connections = running.flatMap { self.log($0).split(separator: "\n") }
      .filter { $0.contains("\"bus ") }.joined(separator: "\n")
    return """
      all connections: \(connections)
      nats-server \(server.hasEnded ? "ended by itself" : "lives") and \(server.answers() ? "greets" : "does not greet"); \
      its log: \(server.log.suffix(4000))
      """
  }

  /// Waits until a node has said something in its log.
  func waitForLog(_ node: String, _ text: String) async throws {
    if await Pause.until(within: .seconds(60), { log(node).contains(text) }) { return }
    throw Failure(description: "\(node) does not say \"\(text)\"; its log: \(log(node))")
  }

  func get(_ edge: String, _ path: String) async throws -> (status: Int32, body: String) {
    await HTTPProbe.get("127.0.0.1", port(edge), path)
  }

  /// The same at a node's operators' port.
  func ask(_ node: String, _ path: String) async throws -> (status: Int32, body: String) {
    await HTTPProbe.get("127.0.0.1", operatorsPort(node), path)
  }

  struct Output: Sendable {
    var status: Int32
    var text: String
    /// The text on its standard error: why it failed.
    var errors: String
    var said: String { text + errors }
  }

  func callctl(_ arguments: String...) async throws -> Output { try await callctl(arguments) }

  func callctl(_ arguments: [String]) async throws -> Output {
    try await Self.run(
      Self.program("callctl"), arguments + ground.access("operator") + ["--cluster", Self.name])
  }

  /// The output of callctl, where it succeeds.
  func told(_ arguments: String...) async throws -> String {
    let output = try await callctl(arguments)
    guard output.status == 0 else {
      throw Failure(
        description: "callctl \(arguments.joined(separator: " ")) ended with \(output.status): "
          + output.text + output.errors)
    }
    return output.text
  }

  static func runAlone(_ name: String, _ arguments: [String]) async throws -> Output {
    try await run(program(name), arguments)
  }

  /// Runs a program to its end.
  static func run(_ program: String, _ arguments: [String]) async throws -> Output {
    var command = ChildCommand(name: "command", executable: program, arguments: arguments)
    command.inherits = .all
    let output = try await CommandOutput.of(command)
    return Output(status: output.status, text: output.text, errors: output.errors)
  }

  /// A program of this package, beside the tests.
  static func program(_ name: String) throws -> String { try Executables.built(name) }
}
