import FoundationEssentials
import Testing
import callload

/// What a run under faults reports.
@Suite("Report on chaos") struct ReportChaosTests {
  private func takeOver(
    _ kind: ChaosKind, _ node: String, at seconds: Double, shards: Int, us: UInt64?
  ) -> ChaosResult.TakeOver {
    ChaosResult.TakeOver(
      kind: kind, node: node, atSeconds: seconds, shards: shards, microseconds: us)
  }

  private func makeChaos() -> ChaosResult {
    var chaos = ChaosResult()
    chaos.injected = [.killCoordinator: 3, .killEdge: 1, .partition: 0]
    chaos.takeOvers = [
      takeOver(.killCoordinator, "coordinator-1", at: 5.00049, shards: 32, us: 1_200_000),
      takeOver(.killCoordinator, "coordinator-2", at: 10, shards: 30, us: 900_000),
      takeOver(.killCoordinator, "coordinator-1", at: 15, shards: 34, us: 3_000_000),
      // It had nothing that could be missed.
      takeOver(.killEdge, "edge-1", at: 7, shards: 0, us: 0),
    ]
    var silence = LatencyBook.histogram()
    for value: UInt64 in 1...100 { silence.record(value * 10_000) }
    chaos.shardSilence[.killCoordinator] = silence
    for value: UInt64 in [10_000, 40_000, 90_000] { chaos.handOver.record(value) }
    chaos.commandWait.record(2_000)
    chaos.commandWait.record(1_500_000)
    chaos.reconnect.record(500_000)
    chaos.commandsRetried = 12
    chaos.reconnects = 2
    chaos.changed = ["unreachable (kill-edge)": 1, "unanswered (kill-coordinator)": 4]
    return chaos
  }

  private func report(_ chaos: ChaosResult?) -> RunReport {
    var report = makeReport()
    report.settings.chaos = "kill-coordinator=5s, kill-edge=7s"
    report.result.chaos = chaos
    return report
  }

  @Test("as text") func text() throws {
    let expected = """
      Chaos  kill-coordinator=5s, kill-edge=7s
        kill-coordinator  3
        kill-edge         1
        take-over: from the fault until shards answer again, asked every 25 ms
                                       count      p50      p99      max
        kill-coordinator                   3   1.20 s   3.00 s   3.00 s
          each shard                     100   500 ms   990 ms   1.00 s
        hand-over pause, each shard        3  40.0 ms  90.0 ms  90.0 ms
        devices            count      p50      p99      max
        wait for a reply       2  2.00 ms   1.50 s   1.50 s
        without a session      1   500 ms   500 ms   500 ms
        longest silence seen by a device: 1.50 s; 12 commands retried, 2 reconnects, 5 calls changed by faults
        calls that ended otherwise than planned, as a fault explains
          unanswered (kill-coordinator)  4
          unreachable (kill-edge)        1
      """
    let lines = report(makeChaos()).text(.plain)
    let start = try #require(lines.firstIndex { $0.hasPrefix("Chaos") })
    let count = expected.split(separator: "\n").count
    #expect(lines[start..<min(lines.count, start + count)].joined(separator: "\n") == expected)
  }

  @Test("nothing is said of chaos where there was none") func without() {
    #expect(!report(nil).text(.plain).contains { $0.contains("Chaos") })
    #expect(!report(nil).text(.plain).contains { $0.contains("take-over") })
  }

  @Test("faults that never came, and shards that never answered again") func troubles() {
    var chaos = ChaosResult()
    #expect(report(chaos).text(.plain).contains("  no fault was injected"))
    #expect(report(chaos).text(.plain).contains("  nothing was taken over"))
    chaos.injected = [.freezeCoordinator: 1]
    chaos.takeOvers = [
      takeOver(.freezeCoordinator, "coordinator-1", at: 3, shards: 5, us: nil)
    ]
    let lines = report(chaos).text(.plain)
    #expect(lines.contains("  shards that never answered again after a fault: see below"))
    #expect(lines.contains("  nothing was taken over"))
  }

  @Test("as JSON, under the promised names") func json() throws {
    var fields: [String: JSONValue] = [:]
    try JSONDecoder().decode(JSONValue.self, from: JSONReport(report(makeChaos())).encoded())
      .flatten("", into: &fields)
    let expected: [String: Double] = [
      "chaos.injected.kill-coordinator": 3, "chaos.injected.kill-edge": 1,
      "chaos.take_over_us.kill-coordinator.count": 3,
      "chaos.take_over_us.kill-coordinator.p50": 1_200_000,
      "chaos.take_over_us.kill-coordinator.p99": 3_000_000,
      "chaos.take_over_us.kill-coordinator.max": 3_000_000,
      "chaos.shard_silence_us.kill-coordinator.count": 100,
      "chaos.shard_silence_us.kill-coordinator.p50": 500_000,
      "chaos.hand_over_pause_us.count": 3, "chaos.hand_over_pause_us.p99": 90_000,
      "chaos.command_wait_us.max": 1_500_000, "chaos.reconnect_us.p50": 500_000,
      "chaos.longest_silence_us": 1_500_000, "chaos.commands_retried": 12,
      "chaos.reconnects": 2, "chaos.calls_changed.unreachable (kill-edge)": 1,
      "chaos.calls_changed.unanswered (kill-coordinator)": 4, "chaos.never_answered": 0,
    ]
    for (name, value) in expected {
      guard case .number(let found)? = fields[name] else {
        Issue.record("\(name) is missing")
        continue
      }
      #expect(abs(found - value) <= value / 500, "\(name)")
    }
    #expect(!fields.keys.contains { $0.hasPrefix("chaos.take_over_us.kill-edge") })
    let decoded = try JSONDecoder().decode(
      JSONReport.self, from: JSONReport(report(makeChaos())).encoded())
    let takeOvers = try #require(decoded.chaos?.takeOvers)
    #expect(takeOvers.map(\.shards) == [32, 30, 34, 0])
    #expect(takeOvers[0].atSeconds == 5 && takeOvers[0].node == "coordinator-1")
  }

  @Test("a shard that never answered has no time, and is counted") func never() throws {
    var chaos = makeChaos()
    chaos.takeOvers[1].microseconds = nil
    let json = JSONReport.Chaos(chaos)
    #expect(json.neverAnswered == 1)
    #expect(json.takeOvers[1].microseconds == nil)
    #expect(json.takeOver["kill-coordinator"]?.count == 2)
  }

  @Test("percentiles of a few values are values that were seen") func summary() throws {
    #expect(TakeOverSummary([]) == nil)
    let one = try #require(TakeOverSummary([7]))
    #expect((one.p50, one.p99, one.max) == (7, 7, 7))
    let some = try #require(TakeOverSummary([40, 10, 30, 20]))
    #expect((some.p50, some.p99, some.max) == (20, 40, 40))
  }
}
