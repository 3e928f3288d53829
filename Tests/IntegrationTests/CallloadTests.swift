import CallProcesses
import Foundation
import TestSupport
import Testing

/// callload as people and scripts run it: its exit status, its files, and what a signal does.
@Suite(.serialized) struct CallloadTests {
  @Test func aRunInJSONWritesTheDocumentedFiles() async throws {
    let folder = try TemporaryFolder("callmesh-load")
    defer { folder.remove() }
    let run = try await CallloadRun.of(
      [
        "--devices", "60", "--rate", "5", "--duration", "6s", "--shards", "16", "--seed", "5",
        "--protocol", "json", "--hgrm", folder.file("run.hgrm"),
      ], in: folder)
    for path in Self.documentedPaths { #expect(run[path] != nil, "\(path) is missing") }
    #expect(run["settings.protocol"] as? String == "json")
    #expect(run.count("calls.placed") == 30)
    let counts = try #require(run["correctness"] as? [String: Int])
    #expect(Set(counts.keys).isSuperset(of: Self.documentedCounts))
    #expect(counts.allSatisfy { $0.key == "timeoutLate" || $0.value == 0 }, "\(counts)")
    let latency = try #require(run["latency_us"] as? [String: Any])
    let distributions = try String(contentsOfFile: folder.file("run.hgrm"), encoding: .utf8)
    let phases = distributions.matches(of: /# phase ([a-z]+), milliseconds/).map { String($0.1) }
    #expect(phases.sorted() == latency.keys.sorted())
  }

  @Test(.enabled(if: Proof.isOn, "only make prove runs it"))
  func devicesMoveToTheNodeThatOwnsTheirShard() async throws {
    let run = try await CallloadRun.of([
      "--devices", "90", "--rate", "5", "--duration", "10s", "--shards", "16", "--seed", "5",
      "--nodes", "2", "--nearer", "--chaos", "rolling-restart=3s", "--node-setting",
      "drainSeconds=1s",
    ])
    // About half of the devices are at the wrong node at first.
    #expect(run.count("devices.nearer_moves") >= 10, "\(run.output.text)")
  }

  @Test func aRollingRestartWithAnotherProgramIsAnUpgradeAndTheWayBack() async throws {
    let folder = try TemporaryFolder("callmesh-load")
    defer { folder.remove() }
    let lives = folder.file("lives")
    let former = try Self.makeCallnode("former", in: folder.path, notingLivesIn: lives)
    let next = try Self.makeCallnode("next", in: folder.path, notingLivesIn: lives)
    let output = try await TestCluster.runAlone(
      "callload",
      [
        "--devices", "60", "--rate", "5", "--duration", "10s", "--shards", "16", "--seed", "5",
        "--callnode", former, "--other-callnode", next, "--chaos", "rolling-restart=1s",
        "--node-setting", "drainSeconds=1s",
      ])
    output.expectCorrect()
    #expect(output.text.contains("every second life of a node runs \(next)"), "\(output.text)")
    let said = try String(contentsOfFile: lives, encoding: .utf8).split(separator: "\n")
    for name in ["coordinator-1", "coordinator-2", "edge-1", "edge-2"] {
      let programs = said.filter { $0.contains(" --node-id \(name) ") }.map { $0.prefix(4) }
      #expect(programs.count > 1, "\(said)")
      for (life, program) in programs.enumerated() {
        #expect(program == (life.isMultiple(of: 2) ? "form" : "next"), "\(name): \(programs)")
      }
    }
  }

  @Test(arguments: Proof.arguments([["--nodes", "2"]], andInProof: [[]]))
  func anAppHasItsEventsAndUsersTheirHistories(words: [String]) async throws {
    let run = try await CallloadRun.of(
      [
        "--devices", "300", "--rate", "20", "--duration", "10s", "--shards", "16", "--seed", "6",
        "--webhooks", "--history",
      ] + words)
    #expect(run.count("webhooks.calls") == 200, "\(run.output.text)")
    // Each call has two at least: it was placed, and it ended.
    #expect(run.count("webhooks.events") > 400)
    #expect(run.count("history.users") > 10)
    #expect(run.count("history.calls_of_both_sides") > 20)
    #expect(run.count("calls.by_part.forwarded") > 0, "\(run.output.text)")
  }

  @Test func anAppDecidesAndDevicesSeeTheirUsersCalls() async throws {
    let run = try await CallloadRun.of([
      "--devices", "600", "--rate", "20", "--duration", "10s", "--shards", "16", "--seed", "6",
      "--hook", "--ongoing",
    ])
    for part in ["secondCall", "consulted"] {
      #expect(run.count("calls.by_part.\(part)") > 0, "\(run.output.text)")
    }
    // Each call is asked about once.
    #expect(run["hook.questions"] as? Int == run["calls.placed"] as? Int)
    #expect(run.count("hook.refuse") > 0)
    #expect(run.count("ongoing.calls") > 200)
    #expect(run.count("history.calls_of_both_sides") > 20)
  }

  /// A program that is callnode, and first writes its own name and its arguments into a file.
  private static func makeCallnode(
    _ name: String, in folder: String, notingLivesIn lives: String
  ) throws -> String {
    let path = "\(folder)/\(name)"
    let program = try TestCluster.program("callnode")
    let script = "#!/bin/sh\necho \"\(name) $*\" >> '\(lives)'\nexec '\(program)' \"$@\"\n"
    try script.write(toFile: path, atomically: true, encoding: .utf8)
    try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
    return path
  }

  @Test func anInterruptedRunReportsAndLeavesNoProcessBehind() async throws {
    let run = try await InterruptedRun.of(signal: SIGINT)
    #expect(run.status == 130, "\(run.said)")
    #expect(run.report.contains("Correctness (every count must be 0)"), "\(run.report)")
    #expect(run.report.contains("INTERRUPTED before the end"), "\(run.report)")
    let names = run.children.map(\.name)
    // Two edges, two coordinators, and the gateway that delivers to the app's webhook.
    #expect(names.count(where: { $0 == "callnode" }) == 5, "\(names)")
    #expect(names.count(where: { $0 == "nats-server" }) == 1, "\(names)")
    for child in run.children { #expect(!child.isAlive, "\(child.name), process \(child.id)") }
    #expect(run.files == ["report", "said"], "the folder with store and logs is gone")
  }

  /// It cannot end them: the kernel does (loadtest/callload.md, "What a killed callload leaves").
  @Test(.enabled(if: Executables.find("setpriv", also: ["/usr/bin"]) != nil, "needs util-linux"))
  func aKilledRunLeavesNoProcessBehind() async throws {
    let run = try await InterruptedRun.of(signal: SIGKILL)
    #expect(run.children.count > 4)
    for child in run.children {
      let ends = await Pause.until(within: .seconds(60)) { !child.isAlive }
      #expect(ends, "\(child.name), process \(child.id)")
    }
  }

  // MARK: What loadtest/callload.md promises

  /// Besides those of `ReportJSONTests`, and of what is there only with certain options.
  private static let documentedPaths: [String] =
    [
      "problems", "interrupted", "processes", "load_seconds", "ramp_seconds", "devices.registered",
      "devices.per_user", "calls.by_part.answered", "settings.scenario",
      "settings.duration_seconds", "settings.coordinators", "settings.edges",
      "settings.nats_servers", "settings.edge_urls", "machine.cpus", "machine.cpu_model",
      "machine.memory_bytes", "machine.kernel",
    ]
    + ["connect", "register", "ring", "answer", "elsewhere", "cancel", "timeout", "hop"].flatMap {
      ["latency_us.\($0).count", "latency_us.\($0).mean"]
    }

  private static let documentedCounts: Set<String> = [
    "twoWinners", "noWinner", "ringingAfterEnd", "toldToRingAfterEnd", "wrongReason",
    "winnerToldItLost", "duplicateEnd", "commandLost", "unexplainedError",
    "acceptedThenForgotten", "timeoutLate", "registrationLost", "unreachableThoughAttached",
    "attachedNotRung", "signalsOutOfOrder", "signalsLost", "signalsDoubled", "twoCallsOfGlare",
    "movedWrongly", "forwardedWrongly", "transferredWrongly", "secondCallWrongly",
    "ongoingWrongly", "hookDisagrees",
    "webhookLost", "webhookInvented", "webhookOutOfOrder", "historyLost", "historyDoubled",
    "historyDisagrees",
    "pushedAfterEnd",
    "pushedTwice", "cleanUpToWinner", "cleanUpUnasked", "wokenRangAfterEnd", "pushContract",
  ]
}
