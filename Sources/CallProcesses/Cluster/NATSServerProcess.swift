import Glibc

/// A nats-server with JetStream on the loopback. Its store and its log are in a folder.
package final class NATSServerProcess: Sendable {
  package let process: SupervisedProcess
  package let port: Int
  package let monitor: NATSMonitor
  private let folder: TemporaryFolder
  private let ownsFolder: Bool

  package var url: String { "nats://127.0.0.1:\(port)" }
  package var log: String { ProcessFiles.read(process.process.logPath) ?? "" }

  /// The settings that servers have in common that are started together.
  package struct Setup: Sendable {
    package var program: String
    /// The place of stores and logs; nil: each server has a temporary one, which `stop` removes.
    package var folder: TemporaryFolder?
    package var environment: [String: String] = [:]
    package var processes: ProcessSet

    package init(
      program: String, folder: TemporaryFolder? = nil, processes: ProcessSet = ProcessSet()
    ) {
      self.program = program
      self.folder = folder
      self.processes = processes
    }
  }

  private init(
    _ name: String, _ setup: Setup, port: Int, monitorPort: Int, _ arguments: [String]
  ) async throws {
    ownsFolder = setup.folder == nil
    folder = try setup.folder ?? TemporaryFolder("callmesh-nats")
    var command = ChildCommand(
      name: name, executable: setup.program,
      arguments: [
        "--server_name", name, "--addr", "127.0.0.1", "--port", "\(port)", "--http_port",
        "\(monitorPort)", "--jetstream",
        "--store_dir", folder.file("\(name)-store"),
      ] + arguments, logPath: folder.file("\(name).log"))
    command.environment = setup.environment
    self.port = port
    monitor = NATSMonitor(port: monitorPort)
    process = try await SupervisedProcess(.nats, command, in: setup.processes)
  }

  deinit { if ownsFolder { stop() } }

  // MARK: Starts

  /// Starts servers on free ports. Does not wait until they answer.
  /// - Parameter arguments: further ones of a server, by its number and the addresses that the servers use among
  ///   themselves.
  /// - Throws: ``ProcessFailure``, or the error of `arguments`.
  package static func launch(
    _ count: Int, _ setup: Setup, arguments: (Int, [String]) throws -> [String]
  ) async throws -> [NATSServerProcess] {
    let ports = try FreePorts.reserve((count == 1 ? 2 : 3) * count)
    let routes = ports[(2 * count)...].map { "nats://127.0.0.1:\($0)" }
    var servers: [NATSServerProcess] = []
    for number in 0..<count {
      servers.append(
        try await NATSServerProcess(
          count == 1 ? "nats-server" : "nats-\(number + 1)", setup, port: ports[number],
          monitorPort: ports[count + number], arguments(number, routes)))
    }
    return servers
  }

  /// Starts a server in a temporary folder and waits until it answers.
  /// - Parameter program: the server's path; nil: the standard one.
  /// - Throws: ``ProcessFailure``.
  package static func start(
    program: String? = nil, arguments: [String] = []
  ) async throws -> NATSServerProcess {
    try await startCluster(of: 1, program: program) { _, _ in arguments }[0]
  }

  /// Starts a cluster with a replicated JetStream, which may not be ready at once.
  /// - Throws: ``ProcessFailure``, or the error of `arguments`.
  package static func startCluster(
    of count: Int, program: String? = nil,
    arguments: (Int, [String]) throws -> [String] = { number, routes in
      [
        "--server_name", "server-\(number)", "--cluster_name", "tests", "--cluster",
        routes[number], "--routes", routes.joined(separator: ","),
      ]
    }
  ) async throws -> [NATSServerProcess] {
    let setup = Setup(program: try program ?? Executables.natsServer())
    // Each server waits for a majority of the others before JetStream is ready. Where one fails, `deinit` ends all.
    let servers = try await launch(count, setup, arguments: arguments)
    for server in servers { try await server.waitUntilItAnswers() }
    return servers
  }

  /// Starts the server after `kill`, on the same port and store, and waits until it answers.
  /// - Throws: ``ProcessFailure``.
  package func relaunch() async throws {
    try await process.startAgain()
    try await waitUntilItAnswers()
  }

  /// Kills the server, starts it on the same port and store, and waits until it answers.
  /// - Parameter arguments: in addition to the former ones; of a flag that is repeated the last value counts.
  /// - Throws: ``ProcessFailure``.
  package func restart(adding arguments: [String] = []) async throws {
    kill()
    process.change { $0.arguments += arguments }
    try await relaunch()
  }

  // MARK: Ends

  /// Ends the server at once, as a crash would. The store stays. Blocks the thread until it is gone.
  package func kill() { process.process.killNow() }

  /// Ends the server, and removes its folder if that is its own. Safe to call twice.
  package func stop() {
    process.process.stopNow()
    if ownsFolder { folder.remove() }
  }

  /// Its process id; nil while it does not run.
  package var processID: Int32? { hasEnded ? nil : process.process.processID }

  package var hasEnded: Bool { process.process.poll() != nil }

  // MARK: Readiness

  private func waitUntilItAnswers() async throws {
    let isThere = try await Pause.until(within: .seconds(20), each: 5) {
      if hasEnded { throw ProcessFailure("nats-server ended at once; its log: \(log)") }
      return answers()
    }
    guard isThere else {
      throw ProcessFailure("nats-server does not answer on port \(port); its log: \(log)")
    }
  }

  /// Whether it greets a connection, which it does once JetStream is ready.
  package func answers() -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var timeout = timeval(tv_sec: 1, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    let isConnected = withIPv4("127.0.0.1", UInt16(port)) { connect(descriptor, $0, $1) } == 0
    var first: UInt8 = 0
    return isConnected && recv(descriptor, &first, 1, 0) == 1
  }
}
