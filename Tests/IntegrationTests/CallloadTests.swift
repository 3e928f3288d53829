import CallProcesses
import Foundation
import TestSupport
import Testing

/// callload as people and scripts run it: its exit status, its files, and what a signal does.
@Suite(.serialized) struct CallloadTests {
  @Test func aRunInJSONWritesTheDocumentedFiles() async throws {
    let folder = try Self.makeFolder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let output = try await TestCluster.runAlone(
      "callload",
      [
        "--devices", "60", "--rate", "5", "--duration", "6s", "--shards", "16", "--seed", "5",
        "--protocol", "json", "--json", folder + "/run.json", "--hgrm", folder + "/run.hgrm",
      ])
    output.expectCorrect()
    let json = try Data(contentsOf: URL(fileURLWithPath: folder + "/run.json"))
    let report = try #require(JSONSerialization.jsonObject(with: json) as? [String: Any])
    for path in Self.documentedPaths {
      #expect(Self.value(path, in: report) != nil, "\(path) is missing")
    }
    #expect(Self.value("settings.protocol", in: report) as? String == "json")
    #expect(Self.value("calls.placed", in: report) as? Int == 30)
    let counts = try #require(report["correctness"] as? [String: Int])
    #expect(Set(counts.keys).isSuperset(of: Self.documentedCounts))
    #expect(counts.allSatisfy { $0.key == "timeoutLate" || $0.value == 0 }, "\(counts)")
    let latency = try #require(report["latency_us"] as? [String: Any])
    let distributions = try String(contentsOfFile: folder + "/run.hgrm", encoding: .utf8)
    let phases = distributions.matches(of: /# phase ([a-z]+), milliseconds/).map { String($0.1) }
    #expect(phases.sorted() == latency.keys.sorted())
  }

  @Test(.enabled(if: Proof.isOn, "only make prove runs it"))
  func devicesMoveToTheNodeThatOwnsTheirShard()
    async throws
  {
    let folder = try Self.makeFolder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let output = try await TestCluster.runAlone(
      "callload",
      [
        "--devices", "90", "--rate", "5", "--duration", "10s", "--shards", "16", "--seed", "5",
        "--nodes", "2", "--nearer", "--chaos", "rolling-restart=3s", "--node-setting",
        "drainSeconds=1s", "--json", folder + "/run.json",
      ])
    output.expectCorrect()
    let json = try Data(contentsOf: URL(fileURLWithPath: folder + "/run.json"))
    let report = try #require(JSONSerialization.jsonObject(with: json) as? [String: Any])
    let moves = try #require(Self.value("devices.nearer_moves", in: report) as? Int)
    // About half of the devices are at the wrong node at first.
    #expect(moves >= 10, "\(output.text)")
  }

  @Test func aRollingRestartWithAnotherProgramIsAnUpgradeAndTheWayBack() async throws {
    let folder = try Self.makeFolder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let lives = folder + "/lives"
    let former = try Self.makeCallnode("former", in: folder, notingLivesIn: lives)
    let next = try Self.makeCallnode("next", in: folder, notingLivesIn: lives)
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
    let folder = try Self.makeFolder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let output = try await TestCluster.runAlone(
      "callload",
      [
        "--devices", "300", "--rate", "20", "--duration", "10s", "--shards", "16", "--seed", "6",
        "--webhooks", "--history", "--json", folder + "/run.json",
      ] + words)
    output.expectCorrect()
    let json = try Data(contentsOf: URL(fileURLWithPath: folder + "/run.json"))
    let report = try #require(JSONSerialization.jsonObject(with: json) as? [String: Any])
    #expect(Self.value("webhooks.calls", in: report) as? Int == 200, "\(output.text)")
    // Each call has two at least: it was placed, and it ended.
    #expect(Self.value("webhooks.events", in: report) as? Int ?? 0 > 400)
    #expect(Self.value("history.users", in: report) as? Int ?? 0 > 10)
    #expect(Self.value("history.calls_of_both_sides", in: report) as? Int ?? 0 > 20)
    #expect(Self.value("calls.by_part.forwarded", in: report) as? Int ?? 0 > 0, "\(output.text)")
  }

  @Test func anAppDecidesAndDevicesSeeTheirUsersCalls() async throws {
    let folder = try Self.makeFolder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let output = try await TestCluster.runAlone(
      "callload",
      [
        "--devices", "600", "--rate", "20", "--duration", "10s", "--shards", "16", "--seed", "6",
        "--hook", "--ongoing", "--json", folder + "/run.json",
      ])
    output.expectCorrect()
    let json = try Data(contentsOf: URL(fileURLWithPath: folder + "/run.json"))
    let report = try #require(JSONSerialization.jsonObject(with: json) as? [String: Any])
    for part in ["secondCall", "consulted"] {
      #expect(Self.value("calls.by_part.\(part)", in: report) as? Int ?? 0 > 0, "\(output.text)")
    }
    // Each call is asked about once.
    #expect(
      Self.value("hook.questions", in: report) as? Int
        == Self.value("calls.placed", in: report) as? Int)
    #expect(Self.value("hook.refuse", in: report) as? Int ?? 0 > 0)
    #expect(Self.value("ongoing.calls", in: report) as? Int ?? 0 > 200)
    #expect(Self.value("history.calls_of_both_sides", in: report) as? Int ?? 0 > 20)
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
    let folder = try Self.makeFolder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let run = try await InterruptedRun.of(
      [
        "--devices", "60", "--rate", "5", "--duration", "60s", "--shards", "16", "--summary", "1s",
      ], in: folder)
    #expect(run.status == 130, "\(run.said)")
    #expect(run.report.contains("Correctness (every count must be 0)"), "\(run.report)")
    #expect(run.report.contains("INTERRUPTED before the end"), "\(run.report)")
    let names = run.children.map(\.name)
    // Two edges, two coordinators, and the gateway that delivers to the app's webhook.
    #expect(names.count(where: { $0 == "callnode" }) == 5, "\(names)")
    #expect(names.count(where: { $0 == "nats-server" }) == 1, "\(names)")
    for child in run.children { #expect(!child.isAlive, "\(child.name), process \(child.id)") }
    let files = try FileManager.default.contentsOfDirectory(atPath: folder)
    #expect(files.sorted() == ["report", "said"], "the folder with store and logs is gone")
  }

  /// It cannot end them: the kernel does (loadtest/callload.md, "What a killed callload leaves").
  @Test(.enabled(if: Executables.find("setpriv", also: ["/usr/bin"]) != nil, "needs util-linux"))
  func aKilledRunLeavesNoProcessBehind() async throws {
    let folder = try Self.makeFolder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let run = try await InterruptedRun.of(
      [
        "--devices", "60", "--rate", "5", "--duration", "60s", "--shards", "16", "--summary", "1s",
      ], in: folder, signal: SIGKILL)
    #expect(run.children.count > 4)
    for child in run.children {
      let ends = await Pause.until(within: .seconds(60)) { !child.isAlive }
      #expect(ends, "\(child.name), process \(child.id)")
    }
  }

  private static func makeFolder() throws -> String {
    let folder = NSTemporaryDirectory() + "/callmesh-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    return folder
  }

  // MARK: What loadtest/callload.md promises

  /// Names joined by dots, but for what is there only with certain options.
  private static let documentedPaths: [String] = {
    let parts: [String: [String]] = [
      "": [
        "ok", "problems", "interrupted", "failures", "processes", "load_seconds", "ramp_seconds",
      ],
      "devices.": ["expected", "connected", "registered", "per_user"],
      "calls.": [
        "expected", "placed", "completed", "by_part.answered", "rate_per_second_asked",
        "rate_per_second_placed",
      ],
      "cpu_us_per_call.": ["edge", "coordinator", "nats", "total", "callload"],
      "memory_bytes.": ["edge", "coordinator", "nats", "total", "callload"],
      "settings.": [
        "scenario", "protocol", "seed", "duration_seconds", "coordinators", "edges",
        "nats_servers", "edge_urls",
      ],
      "machine.": ["cpus", "cpu_model", "memory_bytes", "kernel", "nats_version"],
    ]
    let phases = ["connect", "register", "ring", "answer", "elsewhere", "cancel", "timeout", "hop"]
    let figures = ["count", "p50", "p90", "p99", "p999", "max", "mean"]
    var paths: [String] = []
    for (part, names) in parts { paths += names.map { part + $0 } }
    for phase in phases { paths += figures.map { "latency_us.\(phase).\($0)" } }
    return paths
  }()

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

  private static func value(_ path: String, in report: [String: Any]) -> Any? {
    var value: Any? = report
    for name in path.split(separator: ".") {
      value = (value as? [String: Any])?[String(name)]
    }
    return value
  }
}
