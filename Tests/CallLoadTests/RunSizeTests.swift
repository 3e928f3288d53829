import ArgumentParser
import CallLoadKit
import CallProcesses
import Testing

/// How many edges the devices need, and what is refused before anything starts.
@Suite("Sizes of runs") struct RunSizeTests {
  private static let files = FileLimit(soft: 20_000, hard: 20_000)

  private func plan(_ words: [String], _ files: FileLimit = files) throws -> RunPlan {
    try RunPlan(
      LoadCommand.parse(words + ["--nats", "/bin/sh", "--callnode", "/bin/sh"]), seed: 1,
      files: files)
  }

  private func refusal(_ words: String..., files: FileLimit = files) -> String {
    refusal(words, files: files)
  }

  private func refusal(_ words: [String], files: FileLimit) -> String {
    do {
      _ = try plan(words, files)
      return "accepted"
    } catch {
      return "\(error)"
    }
  }

  @Test(
    "edges of which one may be down", arguments: [(10_000, 2), (19_743, 3), (19_744, 3)])
  func sizes(devices: Int, edges: Int) throws {
    let plan = try plan(["--devices", "\(devices)"])
    #expect(plan.roster.devices == devices)
    #expect(plan.settings.edges == edges)
    #expect(plan.settings.coordinators == 2)
  }

  @Test("slices of more devices than a process may have files")
  func slices() throws {
    let words = ["--devices", "100000", "--meet", "/tmp", "--seed", "1", "--slice"]
    let plan = try plan(words + ["6/6"])
    #expect(plan.roster.devices == 16_666)
    #expect(plan.settings.edges == 7, "as all devices need")
    #expect(refusal(words + ["5/5"], files: Self.files).hasPrefix("19,999 devices in one process"))
  }

  @Test("probes of faults need files as well") func probes() throws {
    let words = ["--devices", "19700", "--shards", "64", "--edges", "4"]
    #expect(try plan(words).roster.devices == 19_700)
    if Executables.beside("callctl") != nil {
      let refused = refusal(words + ["--chaos", "kill-edge"], files: Self.files)
      #expect(refused.contains("need 20,212 open files"))
    }
  }

  @Test("what is refused names the way out") func refusals() {
    let tooMany = refusal("--devices", "30000")
    #expect(tooMany.contains("ask for at most --devices 19744, or divide them: loadtest/slices.sh"))
    #expect(
      refusal("--devices", "100000", "--edges", "2")
        == "--edges 2: too few for 100,000 devices, of which an edge takes "
        + "\(Units.count(Self.files.connectionsMax)) (limit of open files 20,000); "
        + "use --edges 7, which is enough with one edge down")
    #expect(refusal("--devices", "100000", "--nodes", "3").contains("use --nodes 7"))
    #expect(
      refusal("--nodes", "2", "--edges", "2")
        == "--nodes 2: does not go with --edges 2, since each node is an edge and a coordinator; "
        + "leave one of them out")
    #expect(refusal("--nodes", "2", "--coordinators", "1").contains("--coordinators 1, since"))
    let few = FileLimit(soft: 1_024, hard: 4_096)
    #expect(refusal("--devices", "100000", files: few).contains("; raise that limit, or ask"))
    #expect(refusal("--reconnect-spread", "1h").hasPrefix("--reconnect-spread 3600s: give at most"))
    #expect(refusal("--idle", "2h").hasPrefix("--idle 7200s: give at most 1h"))
  }
}
