import ArgumentParser
import CallHostile
import CallLoadKit
import CallProcesses
import Testing

@Suite("Attacks beside the load") struct HostileTests {
  private let quiet = {
    var row = HostileRow(name: HostileRow.quiet)
    row.calls = 100
    (row.ringP50, row.ringP99) = (800, 3_000)
    row.peaks = [
      NodePeak(role: .edge, name: "edge-1", bytes: 30_000_000),
      NodePeak(role: .edge, name: "edge-2", bytes: 40_000_000),
      NodePeak(role: .nats, name: "nats-server", bytes: 50_000_000),
    ]
    row.recoveredSeconds = 0
    return row
  }()

  private func attacked(_ change: (inout HostileRow) -> Void = { _ in }) -> HostileRow {
    var row = quiet
    row.name = "garbage"
    var account = AttackAccount()
    account.attempts = 7
    row.accounts = [.garbage: account]
    change(&row)
    return row
  }

  // MARK: What is asked for

  @Test("attacks by name, in turn, together, and each once") func rounds() throws {
    let some = try plan("--hostile", "garbage,ping-flood", "--hostile", "garbage").hostile
    #expect(some?.rounds.map(\.name) == ["garbage", "ping-flood"])
    let each = try plan("--hostile", "each,all").hostile
    #expect(each?.rounds.count == Attack.allCases.count + 1)
    #expect(each?.rounds.last?.name == "all")
    #expect(each?.rounds.last?.attacks == Attack.allCases)
    #expect(try plan().hostile == nil)
  }

  @Test("a second app is a hostile one") func apps() throws {
    #expect(try plan("--apps", "2").hostile?.rounds.map(\.attacks) == [[.appFlood]])
    #expect(try plan("--apps", "1").hostile == nil)
    #expect(refusal("--apps", "3") == "--apps 3: give 1, or 2 of which the second is hostile")
  }

  @Test("the load lasts as long as the attack and its aftermath") func durations() throws {
    let plan = try plan("--hostile", "all", "--duration", "4s", "--recovery", "3s")
    #expect(plan.hostile?.attackSeconds == 4)
    #expect(plan.settings.durationSeconds == 7)
  }

  @Test("an error names what is wrong and what would do") func errors() {
    let unknown = refusal("--hostile", "nonsense")
    #expect(unknown.hasPrefix("--hostile nonsense: no such attack; there are pipelined-http, "))
    #expect(unknown.hasSuffix("app-flood, each, all"))
    #expect(
      refusal("--hostile", "all", "--find-max")
        == "--find-max: does not go with --hostile or --apps 2; leave one of them out")
    #expect(refusal("--hostile", "all", "--duration", "1h").contains("give at most 10m"))
  }

  @Test("every attack has a place in the help") func table() {
    let help = LoadCommand.helpMessage(columns: 200)
    for attack in Attack.allCases {
      #expect(help.contains(attack.facts.summary), "\(attack)")
    }
  }

  // MARK: What is found

  @Test("the aim is twice the quiet run, or 10 ms") func aim() {
    #expect(HostileAim(quiet: quiet).ringP99Max == 10_000)
    #expect(HostileAim(quiet: quiet).memoryMax[.edge] == 80_000_000)
    var slow = quiet
    slow.ringP99 = 6_000
    #expect(HostileAim(quiet: slow).ringP99Max == 12_000)
  }

  @Test("what misses the aim is said") func problems() {
    let aim = HostileAim(quiet: quiet)
    #expect(aim.problems(attacked()) == [])
    #expect(aim.problems(attacked { $0.ringP99 = 10_001 }) == ["ring p99 above 10.0 ms"])
    #expect(aim.problems(attacked { $0.ringP99 = nil }) == ["nothing rang"])
    #expect(aim.problems(attacked { $0.failures = ["a": 1, "b": 2] }) == ["3 failures"])
    #expect(
      aim.problems(attacked { $0.peaks[0].bytes = 90_000_000 }) == ["edge memory above 80.0 MB"])
    #expect(aim.problems(attacked { $0.recoveredSeconds = nil }) == ["not back to quiet in time"])
    #expect(aim.problems(attacked { $0.recoveredSeconds = 11 }) == ["not back to quiet in time"])
    #expect(
      aim.problems(attacked { $0.accounts[.garbage]?.attempts = 0 }) == ["garbage did nothing"])
    #expect(aim.problems(attacked { $0.accounts = [:] }) == ["the attackers left no account"])
  }

  @Test("recovery ends with the last second that is slow") func recovery() {
    let aim = HostileAim(quiet: quiet)
    func rings(slowUntil: Double) -> [RingSample] {
      stride(from: 0.0, to: 20, by: 0.05).map {
        RingSample(dueSeconds: $0, microseconds: $0 < slowUntil ? 50_000 : 900)
      }
    }
    #expect(aim.recovery(rings(slowUntil: 9), from: 10, until: 20) == 0)
    #expect(aim.recovery(rings(slowUntil: 12.5), from: 10, until: 20) == 3)
    #expect(aim.recovery(rings(slowUntil: 20), from: 10, until: 20) == nil)
    // One slow ring in a second of twenty is what a 99th percentile allows for.
    var almost = rings(slowUntil: 0)
    almost[250].microseconds = 50_000
    #expect(aim.recovery(almost, from: 10, until: 20) == 0)
  }

  @Test("percentiles of a part of the load") func percentiles() {
    let rings = (1...200).map {
      RingSample(dueSeconds: Double($0) / 10, microseconds: UInt64($0))
    }
    #expect(rings.percentile(0.5, before: 10.01) == 51)
    #expect(rings.percentile(0.99, before: 10.01) == 100)
    #expect(rings.percentile(0.5, before: 0) == nil)
  }

  // MARK: What is reported

  private var report: RunReport {
    var report = makeReport()
    report.hostile = [quiet, attacked { $0.failures = ["device: closed by edge": 2] }]
    return report
  }

  @Test("the promised names hold the promised values") func json() throws {
    let json = try fields(report)
    #expect(json["ok"] == .bool(false))
    #expect(json["problems.0"] == .text("garbage: 2 failures") && json["problems.1"] == nil)
    #expect(json["hostile.garbage.latency_us.ring.p99"] == .number(3_000))
    #expect(json["hostile.garbage.failures"] == .number(2))
    #expect(json["hostile.garbage.failures_by_cause.device: closed by edge"] == .number(2))
    #expect(json["hostile.garbage.memory_bytes.edge"] == .number(40_000_000))
    #expect(json["hostile.garbage.memory_bytes.nats"] == .number(50_000_000))
    #expect(json["hostile.garbage.memory_bytes.push"] == nil)
    #expect(json["hostile.garbage.recovered_seconds"] == .number(0))
    #expect(json["hostile.garbage.attacks.garbage.attempts"] == .number(7))
    #expect(json["hostile.garbage.attacks.garbage.connections_closed"] == .number(0))
    #expect(json["hostile.quiet.latency_us.ring.p50"] == .number(800))
    #expect(try !fields(makeReport()).keys.contains { $0.hasPrefix("hostile") })
  }

  @Test("a row for each run, and under it what is wrong") func text() {
    let lines = report.text(.plain)
    #expect(
      lines.contains {
        $0.hasPrefix("  garbage") && $0.contains("3.00 ms") && $0.hasSuffix(" 0 s         7")
      })
    #expect(lines.contains("      misses: 2 failures"))
    #expect(lines.contains("      device: closed by edge: 2"))
    #expect(lines.contains("      7 frames, 0 connections opened"))
    #expect(Verdict(report).exitStatus == 1)
    #expect(makeReport().text(.plain).allSatisfy { !$0.contains("Hostile") })
  }
}
