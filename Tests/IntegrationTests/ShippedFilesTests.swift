import Foundation
import Testing

/// The configurations and units that come with the programs are good for what Debian 12 has.
@Suite struct ShippedFilesTests {
  private static let deploy = DocumentBlock.repository + "/deploy"
  private static let verifier = "/usr/bin/systemd-analyze"

  private static func callnode(_ arguments: String...) async throws -> TestCluster.Output {
    try await TestCluster.runAlone("callnode", arguments)
  }

  @Test(arguments: ["single.conf", "cluster.conf"])
  func theNATSServerTakesItsConfiguration(file: String) async throws {
    let path = ProcessInfo.processInfo.environment["NATS_SERVER"] ?? "/usr/sbin/nats-server"
    let output = try await TestCluster.run(
      "/usr/bin/env", ["NATS_NAME=nats-1", path, "-t", "-c", Self.deploy + "/nats/" + file])
    #expect(output.status == 0, "\(file): nats-server -t says why")
  }

  @Test(
    .enabled(if: FileManager.default.isExecutableFile(atPath: verifier), "needs systemd-analyze"))
  func systemdTakesTheUnits() async throws {
    let folder = NSTemporaryDirectory() + "/callmesh-units-\(UUID().uuidString)"
    let manager = FileManager.default
    try manager.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? manager.removeItem(atPath: folder) }
    let program = try TestCluster.program("callnode")
    let units = try manager.contentsOfDirectory(atPath: Self.deploy + "/systemd")
      .filter { $0.hasSuffix(".service") }
    #expect(units.count == 3)
    for unit in units {
      var text = try String(contentsOfFile: Self.deploy + "/systemd/" + unit, encoding: .utf8)
      // Units are verified with their program in place.
      text = text.replacingOccurrences(of: "/usr/local/bin/callnode", with: program)
      try text.write(toFile: folder + "/" + unit, atomically: true, encoding: .utf8)
      #expect(
        !text.contains("SupplementaryGroups=") || text.contains("SupplementaryGroups=callmesh"))
      let output = try await TestCluster.run(
        "/usr/bin/env",
        ["bash", "-c", "exec 2>&1; exec \(Self.verifier) verify --man=no \(folder)/\(unit)"])
      #expect(output.status == 0 && output.text.isEmpty, "\(unit): \(output.text)")
    }
    let groups = try String(
      contentsOfFile: Self.deploy + "/systemd/callmesh.sysusers.conf", encoding: .utf8)
    #expect(groups.contains("\ng callmesh "), "the group of the units is made")
  }

  /// Each role has a port for metrics: the file and the units together say which.
  @Test func everyRoleServesMetrics() throws {
    for (role, port) in [("coordinator", "910%i"), ("push", "911%i"), ("edge", "912%i")] {
      let text = try String(
        contentsOfFile: Self.deploy + "/systemd/callmesh-\(role)@.service", encoding: .utf8)
      #expect(text.contains("\nEnvironment=CALLMESH_METRICS_PORT=\(port)\n"))
    }
  }

  /// `callnode config` refuses exactly what a node would refuse.
  @Test func aFileIsUsableForTheRolesThatNeedNoMore() async throws {
    let folder = NSTemporaryDirectory() + "/callmesh-config-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let shipped = try String(
      contentsOfFile: Self.deploy + "/systemd/callmesh.json", encoding: .utf8)
    let file = folder + "/callmesh.json"
    try shipped.replacingOccurrences(of: "/etc/callmesh", with: folder)
      .write(toFile: file, atomically: true, encoding: .utf8)

    // Neither keys nor providers are there.
    #expect(try await Self.callnode("config", "--config", file).status == 0)
    #expect(
      try await Self.callnode("config", "--role", "coordinator", "--config", file).status == 2)
    #expect(try await Self.callnode("config", "--role", "edge", "--config", file).status == 2)
    #expect(try await Self.callnode("edge", "--config", file).status == 2)

    let keys = try await TestCluster.runAlone(
      "callctl", ["keys", "--app", "demo", "--keys-file", folder + "/keys.json"])
    #expect(keys.status == 0)
    // Edges and coordinators start with it, though no gateway would.
    #expect(
      try await Self.callnode("config", "--role", "coordinator", "--config", file).status == 0)
    #expect(try await Self.callnode("config", "--role", "edge", "--config", file).status == 0)
    #expect(try await Self.callnode("config", "--role", "push", "--config", file).status == 2)
    #expect(try await Self.callnode("config", "--role", "all", "--config", file).status == 2)
    #expect(try await Self.callnode("push", "--config", file).status == 2)
  }
}
