import Foundation
import TestSupport
import Testing

/// Several callloads on one cluster, and their reports as one; and what the charts are drawn from.
@Suite(.serialized) struct CallloadSlicesTests {
  private let folder: String

  init() throws {
    folder = NSTemporaryDirectory() + "/callmesh-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
  }

  private func leave() { try? FileManager.default.removeItem(atPath: folder) }

  private var reportPath: String { folder + "/run.json" }

  private func report() throws -> Report {
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try decoder.decode(
      Report.self, from: Data(contentsOf: URL(fileURLWithPath: reportPath)))
  }

  private func slices(_ words: String...) async throws -> TestCluster.Output {
    let programs = (try TestCluster.program("callload") as NSString).deletingLastPathComponent
    return try await TestCluster.run(
      "/bin/bash",
      [DocumentBlock.repository + "/loadtest/slices.sh", programs, "2", reportPath] + words)
  }

  @Test func aReportOfTwoSlicesIsThatOfAll() async throws {
    defer { leave() }
    let output = try await slices(
      "--devices", "90", "--rate", "6", "--shards", "16", "--seed", "5", "--duration", "6s",
      "--idle", "1s")
    output.expectCorrect()
    let report = try report()
    #expect(report.devices.connected == 90)
    #expect(report.devices.registered == 90)
    #expect(report.calls.placed == 36)
    #expect(report.settings.processes == 2)
    #expect(report.latencyUs["connect"]?.count == 90)
    #expect(report.idle?.devices == 90)
    #expect((report.idle?.seconds ?? 0) >= 1)
    #expect(report.idle?.cpuUsPerSecond["total"] != nil)
    #expect(report.idle?.cpuUsPerSecondAndDevice != nil)
    #expect(output.text.contains("in 2 slices"))
  }

  @Test func slicesThatCannotBeginSayWhy() async throws {
    defer { leave() }
    let output = try await slices("--scenario", "nowhere.json")
    #expect(output.status == 2)
    #expect(output.errors.contains("neither a built-in scenario nor a file"), "\(output.errors)")
  }

  @Test(
    "all edges are killed at once, and everything is back",
    arguments: Proof.arguments([["--nodes", "2"]], andInProof: [["--edges", "2"]]))
  func allEdgesDie(cluster: [String]) async throws {
    defer { leave() }
    let output = try await TestCluster.runAlone(
      "callload",
      [
        "--devices", "90", "--rate", "6", "--shards", "16", "--seed", "5", "--json", reportPath,
        "--duration", "8s", "--chaos", "kill-all-edges=30s/500ms", cluster[0], cluster[1],
        "--node-setting", "leaseTimeout=2s",
      ])
    output.expectCorrect()
    let faults = try #require(try report().chaos?.faults)
    #expect(faults.map(\.kind) == ["kill-all-edges"])
    // A device may have dropped its connection by itself just then.
    #expect((80...90).contains(faults[0].devicesDisconnected))
    #expect(faults[0].devicesNeverBack == 0)
    #expect((faults[0].allBackUs ?? 0) >= 500_000)
    #expect(output.text.contains("devices disconnected by"))
    let chart = folder + "/run.svg"
    let plot = try await TestCluster.run(
      "/usr/bin/env",
      ["python3", DocumentBlock.repository + "/loadtest/plot.py", chart, reportPath])
    #expect(plot.status == 0, "\(plot.errors)")
    let svg = try String(contentsOfFile: chart, encoding: .utf8)
    #expect(svg.contains("ring: from placing") && svg.contains("kill-all-edges</text>"))
  }

  /// The members of `--json` that are looked at.
  private struct Report: Decodable {
    struct Devices: Decodable {
      var connected: Int
      var registered: Int
    }
    struct Calls: Decodable { var placed: Int }
    struct Settings: Decodable { var processes: Int }
    struct Points: Decodable { var count: Int }
    struct Idle: Decodable {
      var seconds: Double
      var devices: Int
      var cpuUsPerSecond: [String: Double]
      var cpuUsPerSecondAndDevice: Double?
    }
    struct Chaos: Decodable { var faults: [Fault] }
    struct Fault: Decodable {
      var kind: String
      var devicesDisconnected: Int
      var devicesNeverBack: Int
      var allBackUs: Int?
    }
    var devices: Devices
    var calls: Calls
    var settings: Settings
    var latencyUs: [String: Points]
    var idle: Idle?
    var chaos: Chaos?
  }
}
