import CallProcesses
import Foundation
import TestSupport
import Testing

/// Several callloads on one cluster, and their reports as one; and what the charts are drawn from.
@Suite(.serialized) struct CallloadSlicesTests {
  private let folder: TemporaryFolder

  init() throws { folder = try TemporaryFolder("callmesh-load") }

  private func slices(_ words: String...) async throws -> TestCluster.Output {
    let programs = (try TestCluster.program("callload") as NSString).deletingLastPathComponent
    return try await TestCluster.run(
      "/bin/bash",
      [
        DocumentBlock.repository + "/loadtest/slices.sh", programs, "2", folder.file("run.json"),
      ] + words)
  }

  @Test func aReportOfTwoSlicesIsThatOfAll() async throws {
    defer { folder.remove() }
    let output = try await slices(
      "--devices", "90", "--rate", "6", "--shards", "16", "--seed", "5", "--duration", "6s",
      "--idle", "1s")
    let run = try CallloadRun(output, in: folder)
    for path in ["devices.connected", "devices.registered", "latency_us.connect.count"] {
      #expect(run.count(path) == 90, "\(path)")
    }
    #expect(run.count("calls.placed") == 36)
    #expect(run.count("settings.processes") == 2)
    #expect(run.count("idle.devices") == 90)
    #expect(run["idle.seconds"] as? Double ?? 0 >= 1)
    for path in ["cpu_us_per_second.total", "cpu_us_per_second_and_device"] {
      #expect(run["idle.\(path)"] as? Double != nil, "\(path)")
    }
    #expect(output.text.contains("in 2 slices"))
  }

  @Test func slicesThatCannotBeginSayWhy() async throws {
    defer { folder.remove() }
    let output = try await slices("--scenario", "nowhere.json")
    #expect(output.status == 2)
    #expect(output.errors.contains("neither a built-in scenario nor a file"), "\(output.errors)")
  }

  @Test(
    "all edges are killed at once, and everything is back",
    arguments: Proof.arguments([["--nodes", "2"]], andInProof: [["--edges", "2"]]))
  func allEdgesDie(cluster: [String]) async throws {
    defer { folder.remove() }
    let run = try await CallloadRun.of(
      [
        "--devices", "90", "--rate", "6", "--shards", "16", "--seed", "5", "--duration", "8s",
        "--chaos", "kill-all-edges=30s/500ms", cluster[0], cluster[1], "--node-setting",
        "leaseTimeout=2s",
      ], in: folder)
    let faults = try #require(run["chaos.faults"] as? [[String: Any]])
    #expect(faults.map { $0["kind"] as? String } == ["kill-all-edges"])
    // A device may have dropped its connection by itself just then.
    #expect((80...90).contains(faults[0]["devices_disconnected"] as? Int ?? 0))
    #expect(faults[0]["devices_never_back"] as? Int == 0)
    #expect(faults[0]["all_back_us"] as? Int ?? 0 >= 500_000)
    #expect(run.output.text.contains("devices disconnected by"))
    let chart = folder.file("run.svg")
    let plot = try await TestCluster.run(
      "/usr/bin/env",
      ["python3", DocumentBlock.repository + "/loadtest/plot.py", chart, folder.file("run.json")])
    #expect(plot.status == 0, "\(plot.errors)")
    let svg = try String(contentsOfFile: chart, encoding: .utf8)
    #expect(svg.contains("ring: from placing") && svg.contains("kill-all-edges</text>"))
  }
}
