import CallProcesses
import Foundation
import Testing

/// `deploy/local/run-cluster.sh`, with programs that only look like those it starts.
@Suite struct RunClusterTests {
  private struct Run {
    var status: Int32
    var errors: String
  }

  /// A folder of programs. The programs that are named here run their scripts, the others wait.
  private struct Stage: ~Copyable {
    let folder: URL

    init(_ programs: [String: String] = [:]) throws {
      folder = FileManager.default.temporaryDirectory
        .appending(path: "run-cluster-\(UUID().uuidString)")
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      for name in ["nats-server", "callnode", "callctl"] {
        let waits = name == "callctl" ? "true" : "exec sleep 60"
        let path = folder.appending(path: name).path
        try "#!/bin/sh\n\(programs[name] ?? waits)\n"
          .write(toFile: path, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
      }
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    func run(natsPort: Int, edgePort: Int) async throws -> Run {
      let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
      var command = ChildCommand(
        name: "run-cluster", executable: "/bin/bash",
        arguments: [
          root.appending(path: "deploy/local/run-cluster.sh").path,
          folder.appending(path: "cluster").path,
        ])
      let metrics = try FreePorts.reserve(2)
      command.environment = [
        "PATH": "\(folder.path):/usr/bin:/bin", "BIN": folder.path, "EDGES": "1",
        "COORDINATORS": "1", "NATS_PORT": "\(natsPort)", "EDGE_PORT": "\(edgePort)",
        "METRICS_PORT": "\(metrics[0])", "EDGE_METRICS_PORT": "\(metrics[1])",
      ]
      // By which the runner of tests finds its processes.
      command.environment["TEST_RUN_MARK"] = ProcessInfo.processInfo.environment["TEST_RUN_MARK"]
      command.inherits = .nothing
      let output = try await CommandOutput.of(command)
      return Run(status: output.status, errors: output.errors)
    }
  }

  /// A socket that listens at a port of its own.
  private struct Listener: ~Copyable {
    let descriptor: Int32
    let port: Int

    init() throws {
      descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_addr.s_addr = inet_addr("127.0.0.1")
      var length = socklen_t(MemoryLayout<sockaddr_in>.size)
      let descriptor = descriptor
      let result = withUnsafeMutablePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, length) == 0 && listen(descriptor, 8) == 0
            && getsockname(descriptor, $0, &length) == 0
        }
      }
      try #require(result)
      port = Int(UInt16(bigEndian: address.sin_port))
    }

    deinit { _ = close(descriptor) }
  }

  @Test(arguments: [true, false])
  func aPortThatIsTakenIsSaidBeforeAnythingStarts(isOfNATS: Bool) async throws {
    let taken = try Listener()
    let stage = try Stage(["callctl": "echo started >&2"])
    let free = try FreePorts.reserve()
    let run = try await stage.run(
      natsPort: isOfNATS ? taken.port : free, edgePort: isOfNATS ? free : taken.port)
    #expect(run.status == 2)
    #expect(run.errors.contains("something listens on 127.0.0.1:\(taken.port) already"))
    #expect(run.errors.contains(isOfNATS ? "NATS_PORT=" : "EDGE_PORT="))
    if isOfNATS { #expect(run.errors.contains("systemctl disable --now nats-server")) }
    #expect(!run.errors.contains("started"))
  }

  /// Whatever its status is.
  @Test(arguments: [0, 3]) func aProcessThatEndsIsNamed(status: Int) async throws {
    let stage = try Stage(["nats-server": "echo no disk is left; exit \(status)"])
    let ports = try FreePorts.reserve(2)
    let run = try await stage.run(natsPort: ports[0], edgePort: ports[1])
    #expect(run.status == 1)
    #expect(run.errors.contains("nats-server ended with status \(status)"))
    #expect(run.errors.contains("no disk is left"))
  }
}
