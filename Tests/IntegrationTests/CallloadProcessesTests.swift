import Foundation
import TestSupport
import Testing

/// callload with its devices in several processes: one report, as of one process.
@Suite(.serialized) struct CallloadProcessesTests {
  private let folder: String

  init() throws {
    folder = NSTemporaryDirectory() + "/callmesh-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
  }

  private func leave() { try? FileManager.default.removeItem(atPath: folder) }

  private func run(_ words: String...) async throws -> (report: Report, text: String) {
    let output = try await TestCluster.runAlone(
      "callload",
      [
        "--devices", "90", "--rate", "6", "--shards", "16", "--seed", "5", "--processes", "2",
        "--json", folder + "/run.json",
      ] + words)
    output.expectCorrect()
    let json = try Data(contentsOf: URL(fileURLWithPath: folder + "/run.json"))
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return (try decoder.decode(Report.self, from: json), output.text)
  }

  @Test func aReportOfTwoProcessesIsThatOfAll() async throws {
    defer { leave() }
    let (report, text) = try await run(
      "--duration", "6s", "--idle", "1s", "--plot", folder + "/run.svg")
    #expect(report.devices.connected == 90)
    #expect(report.devices.registered == 90)
    #expect(report.calls.placed == 36)
    #expect(report.settings.processes == 2)
    #expect(report.latencyUs["connect"]?.count == 90)
    #expect(report.idle?.devices == 90)
    #expect((report.idle?.seconds ?? 0) >= 1)
    #expect(report.idle?.cpuUsPerSecond["total"] != nil)
    #expect(report.idle?.cpuUsPerSecondAndDevice != nil)
    #expect(text.contains("in 2 processes"))
    let plot = try String(contentsOfFile: folder + "/run.svg", encoding: .utf8)
    #expect(plot.contains("ring: from placing"))
    #expect(plot.contains("</svg>"))
  }

  @Test(
    "all edges are killed at once, and everything is back",
    arguments: Proof.arguments([["--nodes", "2"]], andInProof: [["--edges", "2"]]))
  func allEdgesDie(cluster: [String]) async throws {
    defer { leave() }
    let (report, text) = try await run(
      "--duration", "8s", "--chaos", "kill-all-edges=30s/500ms", cluster[0], cluster[1],
      "--node-setting", "leaseTimeout=2s")
    let faults = try #require(report.chaos?.faults)
    #expect(faults.map(\.kind) == ["kill-all-edges"])
    // A device may have dropped its connection by itself just then.
    #expect((80...90).contains(faults[0].devicesDisconnected))
    #expect(faults[0].devicesNeverBack == 0)
    #expect((faults[0].allBackUs ?? 0) >= 500_000)
    #expect(text.contains("devices disconnected by"))
  }

  @Test func anInterruptedRunReportsAndLeavesNoProcessBehind() async throws {
    defer { leave() }
    let run = try await InterruptedRun.of(
      [
        "--devices", "60", "--rate", "5", "--duration", "60s", "--shards", "16", "--summary", "1s",
        "--processes", "2",
      ], in: folder)
    #expect(run.status == 130, "\(run.said)")
    #expect(run.report.contains("INTERRUPTED before the end"), "\(run.report)")
    #expect(run.report.contains("60/60"), "\(run.report)")
    #expect(run.children.count(where: { $0.name == "callload" }) == 2)
    for child in run.children { #expect(!child.isAlive, "\(child.name), process \(child.id)") }
  }

  @Test func aProcessThatDiesIsAFailureOfTheRun() async throws {
    defer { leave() }
    let run = try await InterruptedRun.of(
      [
        "--devices", "60", "--rate", "5", "--duration", "60s", "--shards", "16", "--summary", "1s",
        "--processes", "2",
      ], in: folder
    ) { _, children in
      if let part = children.first(where: { $0.name == "callload" }) { kill(part.id, SIGKILL) }
    }
    #expect(run.status == 1, "\(run.said)")
    #expect(
      run.report.contains(/FAILED: devices-[12] was ended by signal 9, which nobody asked it to/),
      "\(run.report)")
    #expect(run.report.contains("30/60"), "\(run.report)")
    for child in run.children { #expect(!child.isAlive, "\(child.name), process \(child.id)") }
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
