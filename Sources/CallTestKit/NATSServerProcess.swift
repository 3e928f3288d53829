internal import Foundation
internal import Glibc
internal import Synchronization

/// A nats-server with JetStream for one test, on a free port of the loopback. `stop` removes its store, a temporary
/// folder.
public final class NATSServerProcess: Sendable {
  public let port: UInt16
  public let directory: String
  public var url: String { "nats://127.0.0.1:\(port)" }

  private let program: String
  /// Further arguments of the server.
  private let extra: Mutex<[String]>
  private let process = Mutex<Running?>(nil)

  private struct Running {
    var server: pid_t
    /// A shell that kills the server when our end of the socket closes without a message. So no server outlives this
    /// process, however it ends.
    var guardian: pid_t
    var guardianSocket: Int32
  }

  public struct Failure: Error, CustomStringConvertible {
    public let description: String
  }

  /// Starts a server and waits until it answers.
  /// - Parameters:
  ///   - program: the server's path; nil: the standard one.
  ///   - arguments: further arguments.
  /// - Throws: `Failure`, or the error of the file system.
  public static func start(
    program: String? = nil, arguments: [String] = []
  ) async throws -> NATSServerProcess {
    let server = try NATSServerProcess(
      program: try program ?? standard(), port: try freePorts(1)[0], extra: arguments)
    try await server.relaunch()
    return server
  }

  /// The program that is installed.
  /// - Throws: `Failure`.
  package static func standard() throws -> String {
    guard let program = find() else {
      throw Failure(
        description: "nats-server is not there: install it (apt-get install nats-server), or set "
          + "NATS_SERVER to its path")
    }
    return program
  }

  package init(program: String, port: UInt16, extra: [String] = []) throws {
    self.program = program
    self.port = port
    self.extra = Mutex(extra)
    directory = NSTemporaryDirectory() + "/callmesh-nats-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
  }

  deinit { stop() }

  /// Ends the server at once, as a crash would. The store stays.
  public func kill() { end(SIGKILL) }

  /// Starts the server again, on the same port and store, and waits until it answers.
  /// - Parameter arguments: replace those of the start; nil: the same.
  /// - Throws: `Failure`.
  public func restart(arguments: [String]? = nil) async throws {
    end(SIGKILL)
    if let arguments { extra.withLock { $0 = arguments } }
    try await relaunch()
  }

  /// Ends the server and removes its store. Safe to call twice.
  public func stop() {
    end(SIGTERM)
    try? FileManager.default.removeItem(atPath: directory)
  }

  /// Its process id; nil while it does not run.
  public var processID: Int32? { process.withLock { $0?.server } }

  /// Whether it ended by itself. A panic of it is on this process's standard error.
  package var hasEnded: Bool {
    guard let server = processID else { return false }
    // Does not reap it, which `end` does.
    var exit = siginfo_t()
    return waitid(P_PID, id_t(server), &exit, WEXITED | WNOHANG | WNOWAIT) == 0
      && exit.si_signo != 0
  }

  private func end(_ signal: Int32) {
    guard let running = process.withLock({ $0.take() }) else { return }
    var newline = UInt8(ascii: "\n")
    send(running.guardianSocket, &newline, 1, Int32(MSG_NOSIGNAL))
    close(running.guardianSocket)
    Glibc.kill(running.server, signal)
    var status: Int32 = 0
    waitpid(running.guardian, &status, 0)
    waitpid(running.server, &status, 0)
  }

  /// Starts the server after `kill`, on the same port and store, and waits until it answers.
  /// - Throws: `Failure`.
  public func relaunch() async throws {
    let server = try Self.spawn(
      [
        program, "--addr", "127.0.0.1", "--port", "\(port)", "--jetstream", "--store_dir",
        directory + "/store", "--log", directory + "/log",
      ] + extra.withLock { $0 })
    let (guardian, socket) = try guarding(server)
    process.withLock {
      $0 = Running(server: server, guardian: guardian, guardianSocket: socket)
    }
    let deadline = ContinuousClock.now + .seconds(20)
    while !answers() {
      if hasEnded { throw Failure(description: "nats-server ended at once; its log: \(log)") }
      guard ContinuousClock.now < deadline else {
        throw Failure(description: "nats-server does not answer on port \(port); its log: \(log)")
      }
      // No event tells when another process begins to listen.
      try await Task.sleep(for: .milliseconds(5))
    }
  }

  private func guarding(_ server: pid_t) throws -> (pid_t, Int32) {
    var sockets: [Int32] = [-1, -1]
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, kind, 0, &sockets) == 0 else {
      throw Failure(description: "cannot make a pair of sockets")
    }
    defer { close(sockets[1]) }
    let script = "read line || { kill -9 $0; rm -rf \"$1\"; }"
    let guardian = try Self.spawn(
      ["/bin/sh", "-c", script, "\(server)", directory], standardInput: sockets[1])
    return (guardian, sockets[0])
  }

  private static func spawn(_ arguments: [String], standardInput: Int32? = nil) throws -> pid_t {
    var pointers = arguments.map { strdup($0) } + [nil]
    defer { for pointer in pointers { free(pointer) } }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    if let standardInput { posix_spawn_file_actions_adddup2(&actions, standardInput, 0) }
    var pid: pid_t = 0
    let status = posix_spawn(&pid, arguments[0], &actions, nil, &pointers, environ)
    guard status == 0 else {
      throw Failure(
        description: "cannot start \(arguments[0]): \(String(cString: strerror(status)))")
    }
    return pid
  }

  private var log: String {
    (try? String(contentsOfFile: directory + "/log", encoding: .utf8)) ?? ""
  }

  /// Whether it greets a connection, which it does once JetStream is ready.
  package func answers() -> Bool {
    let descriptor = Self.newSocket()
    defer { close(descriptor) }
    var timeout = timeval(tv_sec: 1, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    guard Self.withLoopback(port, { connect(descriptor, $0, $1) }) == 0 else { return false }
    var first: UInt8 = 0
    return recv(descriptor, &first, 1, 0) == 1
  }

  /// Free ports, all different, and below those of outgoing connections, so that they are free again when a server
  /// restarts. No other process gets them from here while this one lives.
  /// - Throws: `Failure`.
  package static func freePorts(_ count: Int) throws -> [UInt16] {
    var ports: [UInt16] = []
    for _ in 0..<(100 * count) where ports.count < count {
      let port = UInt16.random(in: 15_000..<32_000)
      let descriptor = newSocket()
      defer { close(descriptor) }
      if reserve(port), withLoopback(port, { bind(descriptor, $0, $1) }) == 0 { ports.append(port) }
    }
    guard ports.count == count else { throw Failure(description: "no free port on the loopback") }
    return ports
  }

  /// Binds a name in the abstract namespace that stands for the port. The kernel releases it with the process, so a port
  /// stays reserved while its server is down.
  private static func reserve(_ port: UInt16) -> Bool {
    let kind = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0 else { return false }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    // The leading zero byte makes the name an abstract one.
    let name = [0] + Array("callmesh port \(port)".utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
    let length = MemoryLayout.offset(of: \sockaddr_un.sun_path)! + name.count
    let status = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(length))
      }
    }
    if status != 0 { close(descriptor) }
    return status == 0
  }

  /// Close-on-exec, since programs that start meanwhile would hold the port.
  private static func newSocket() -> Int32 {
    socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
  }

  private static func withLoopback<Value>(
    _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Value
  ) -> Value {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    return withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }

  /// The server's program: NATS_SERVER, or in PATH, or in Debian's folder.
  private static func find() -> String? {
    let environment = ProcessInfo.processInfo.environment
    if let path = environment["NATS_SERVER"] { return path }
    let folders = (environment["PATH"] ?? "").split(separator: ":").map(String.init) + ["/usr/sbin"]
    return folders.map { $0 + "/nats-server" }.first { access($0, X_OK) == 0 }
  }
}
