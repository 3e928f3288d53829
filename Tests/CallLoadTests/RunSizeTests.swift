import ArgumentParser
import CallLoadKit
import Testing

/// How many processes the devices and the edges need, and what is refused before anything starts.
@Suite("Sizes of runs") struct RunSizeTests {
  private static let files = FileLimit(soft: 20_000, hard: 20_000)

  private func plan(_ words: [String], _ files: FileLimit = files) throws -> RunPlan {
    try RunPlan(
      LoadCommand.parse(words + ["--nats", "/bin/sh", "--callnode", "/bin/sh"]), seed: 1,
      files: files)
  }

  private func refusal(_ words: String..., files: FileLimit = files) -> String {
    do {
      _ = try plan(words, files)
      return "accepted"
    } catch {
      return "\(error)"
    }
  }

  @Test(
    "as few processes as the limit of open files allows, and edges of which one may be down",
    arguments: [(10_000, 1, 2), (19_743, 1, 3), (20_000, 2, 3), (50_000, 3, 4), (100_000, 6, 7)])
  func sizes(devices: Int, processes: Int, edges: Int) throws {
    let plan = try plan(["--devices", "\(devices)"])
    #expect(plan.parts.count == processes)
    #expect(plan.settings.processes == processes)
    #expect(plan.settings.edges == edges)
    #expect(plan.settings.coordinators == 2)
    for part in plan.parts {
      #expect(UInt64(part.devices) + 256 <= Self.files.soft)
    }
  }

  @Test("probes of faults need files as well") func probes() throws {
    let plan = try plan(["--devices", "19700", "--shards", "64", "--edges", "4"])
    #expect(plan.parts.count == 1)
    let words = ["--chaos", "kill-edge", "--devices", "19700", "--shards", "64", "--edges", "4"]
    if Executables.beside("callctl") != nil {
      #expect(try self.plan(words).parts.count == 2)
    }
  }

  @Test("more processes where somebody asks for them") func asked() throws {
    let plan = try plan(["--devices", "60", "--processes", "3"])
    #expect(plan.parts.map(\.devices) == [18, 21, 21])
  }

  @Test("what is refused names the way out") func refusals() {
    #expect(refusal("--processes", "0").hasPrefix("--processes 0: give 1 to 64"))
    #expect(
      refusal("--devices", "12", "--processes", "3")
        == "--processes 3: give 1 to 64, and two users or more for each")
    #expect(
      refusal("--devices", "100000", "--processes", "2")
        == "--processes 2: too few for 100,000 devices, of which one can have 19,744 "
        + "(limit of open files 20,000); give at least 6, or leave it out")
    #expect(
      refusal("--devices", "900", "--processes", "2", "--sleeping", "40%")
        == "--processes 2: does not go with --sleeping, where callload is the provider of devices "
        + "in its own process")
    let sleeping = refusal("--devices", "30000", "--sleeping", "40%")
    #expect(sleeping.hasPrefix("--sleeping, where callload is the provider of devices in its own"))
    #expect(sleeping.contains("ask for at most --devices 19744"))
    let hostile = refusal("--devices", "30000", "--hostile", "each")
    #expect(hostile.hasPrefix("--hostile, which compares the load of one process: "))
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
    #expect(refusal("--plot", "/tmp/x.svg", "--find-max").contains("does not go with --find-max"))
    #expect(refusal("--reconnect-spread", "1h").hasPrefix("--reconnect-spread 3600s: give at most"))
    #expect(refusal("--idle", "2h").hasPrefix("--idle 7200s: give at most 1h"))
  }
}
