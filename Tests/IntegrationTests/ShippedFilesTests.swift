import CallProcesses
import CallTestKit
import Foundation
import TestSupport
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
    let folder = try LoopbackAuthority()
    _ = try folder.issue("server", hosts: ["nats-1"])
    try FileManager.default.copyItem(atPath: folder.caFile, toPath: folder.path + "/ca.crt")
    for name in [file, "permissions.conf"] {
      try String(contentsOfFile: Self.deploy + "/nats/" + name, encoding: .utf8)
        .replacing("/etc/callmesh/nats", with: folder.path)
        .write(toFile: folder.path + "/" + name, atomically: true, encoding: .utf8)
    }
    let users = ["EDGE", "COORDINATOR", "PUSH", "NODE", "ADMIN"]
    try users.map { "\($0)_PASSWORD: \"secret\"\n" }.joined()
      .write(toFile: folder.path + "/passwords.conf", atomically: true, encoding: .utf8)
    for program in NATSServerProcess.programs {
      let output = try await TestCluster.run(
        "/usr/bin/env", ["NATS_NAME=nats-1", program, "-t", "-c", folder.path + "/" + file])
      #expect(output.status == 0, "\(file): \(program) -t says why")
    }
  }

  @Test(
    .enabled(if: FileManager.default.isExecutableFile(atPath: verifier), "needs systemd-analyze"))
  func systemdTakesTheUnits() async throws {
    let folder = try TemporaryFolder("callmesh-units")
    defer { folder.remove() }
    let program = try TestCluster.program("callnode")
    let units = try FileManager.default.contentsOfDirectory(atPath: Self.deploy + "/systemd")
      .filter { $0.hasSuffix(".service") }
    #expect(units.count == 4)
    for unit in units {
      var text = try String(contentsOfFile: Self.deploy + "/systemd/" + unit, encoding: .utf8)
      // Units are verified with their program in place.
      text = text.replacingOccurrences(of: "/usr/local/bin/callnode", with: program)
      // Not as the folder writes files: systemd complains of those that not all may read.
      try text.write(toFile: folder.file(unit), atomically: true, encoding: .utf8)
      #expect(!text.contains("DynamicUser"), "each role has a user of its own")
      #expect(text.contains("LoadCredential=nats-password:"))
      #expect(unit.contains("push") != text.contains("SupplementaryGroups=callmesh-apps"))
      let output = try await TestCluster.run(
        "/usr/bin/env",
        ["bash", "-c", "exec 2>&1; exec \(Self.verifier) verify --man=no \(folder.file(unit))"])
      #expect(output.status == 0 && output.text.isEmpty, "\(unit): \(output.text)")
    }
  }

  @Test func everyRoleHasAUserAndAPortForMetrics() throws {
    let groups = try String(
      contentsOfFile: Self.deploy + "/systemd/callmesh.sysusers.conf", encoding: .utf8)
    let ports = ["coordinator": "910%i", "push": "911%i", "edge": "912%i", "node": "913%i"]
    for (role, port) in ports {
      #expect(groups.contains("\nu callmesh-\(role) "))
      let unit = try String(
        contentsOfFile: Self.deploy + "/systemd/callmesh-\(role)@.service", encoding: .utf8)
      #expect(unit.contains("\nEnvironment=CALLMESH_METRICS_PORT=\(port)\n"))
    }
    #expect(groups.contains("\ng callmesh-apps "))
  }

  /// An attacker who takes a node over is closely confined.
  @Test(
    .enabled(if: FileManager.default.isExecutableFile(atPath: verifier), "needs systemd-analyze"),
    arguments: ["edge", "coordinator", "push", "node"])
  func theUnitsAreHardened(role: String) async throws {
    let unit = Self.deploy + "/systemd/callmesh-\(role)@.service"
    let output = try await TestCluster.run(
      Self.verifier, ["security", "--offline=true", "--threshold=25", unit])
    #expect(output.status == 0, "more than 2.5: \(output.text)")
  }

  @Test func everySettingHasAFlag() async throws {
    struct Row: Decodable { var flag: String }
    let settings = try await Self.callnode("config", "--json")
    let help = try await Self.callnode("config", "--help")
    let flags = try JSONDecoder().decode([Row].self, from: Data(settings.text.utf8)).map(\.flag)
    #expect(!flags.isEmpty)
    for flag in flags { #expect(help.text.contains("\(flag) <"), "\(flag)") }
  }

  /// `callnode config` refuses exactly what a node would refuse.
  @Test func aFileIsUsableForTheRolesThatNeedNoMore() async throws {
    let folder = try TemporaryFolder("callmesh-config")
    defer { folder.remove() }
    let shipped = try String(
      contentsOfFile: Self.deploy + "/systemd/callmesh.json", encoding: .utf8)
    try folder.write(shipped.replacing("/etc/callmesh", with: folder.path), to: "callmesh.json")
    let (nats, apps) = (try folder.inner("nats"), try folder.inner("apps"))
    try withExtendedLifetime(LoopbackAuthority()) { authority in
      try FileManager.default.copyItem(atPath: authority.caFile, toPath: nats.file("ca.crt"))
    }
    func expect(_ status: Int32, _ words: [String]) async throws {
      let output = try await TestCluster.runAlone(
        "callnode", words + ["--config", folder.file("callmesh.json")])
      #expect(output.status == status, "\(words): \(output.said)")
    }

    // Neither keys nor providers are there.
    try await expect(0, ["config"])
    for role in ["coordinator", "edge", "push"] { try await expect(2, ["config", "--role", role]) }
    for role in ["edge", "push"] { try await expect(2, [role]) }

    let keys = try await TestCluster.runAlone(
      "callctl", ["keys", "--app", "demo", "--keys-file", apps.file("keys.json")])
    #expect(keys.status == 0)
    // All roles start with it, a gateway for webhooks alone.
    for role in ["coordinator", "edge", "all", "push"] {
      try await expect(0, ["config", "--role", role])
    }
  }
}
