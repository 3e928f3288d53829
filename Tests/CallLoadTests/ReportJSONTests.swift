import CallCore
import CallLoadKit
import Testing

@Suite("Report as JSON") struct ReportJSONTests {
  @Test("the promised names hold the promised values") func names() throws {
    var report = makeReport()
    report.result.failures = ["connection refused": 2]
    let fields = try fields(report)
    let expected: [String: Double] = [
      "devices.expected": 10_000, "devices.connected": 10_000, "calls.expected": 6_000,
      "calls.placed": 6_000, "calls.completed": 6_000, "latency_us.ring.p50": 510,
      "latency_us.ring.p90": 910, "latency_us.ring.p99": 1_000, "latency_us.ring.p999": 2_000,
      "latency_us.ring.max": 2_000, "cpu_us_per_call.edge": 210,
      "cpu_us_per_call.coordinator": 50, "cpu_us_per_call.nats": 150,
      "cpu_us_per_call.total": 410, "cpu_us_per_call.callload": 500,
      "memory_bytes.edge": 101_000_000, "memory_bytes.coordinator": 30_000_000,
      "memory_bytes.nats": 40_000_000, "memory_bytes.total": 171_000_000,
      "edge_bytes_per_device": 7_900, "failures.connection refused": 2,
      "calls.rate_per_second_asked": 200, "calls.rate_per_second_placed": 200, "settings.seed": 7,
    ]
    for (name, value) in expected {
      guard case .number(let found)? = fields[name] else {
        Issue.record("\(name) is missing")
        continue
      }
      // A histogram keeps three digits.
      #expect(abs(found - value) <= value / 1_000, "\(name)")
    }
    #expect(fields["ok"] == .bool(true))
    #expect(fields["settings.protocol"] == .text("pb"))
    #expect(fields["machine.nats_version"] == .text("2.9.10"))
  }

  @Test("every correctness count is there, also when it is 0")
  func correctness() throws {
    var report = makeReport()
    report.result.correctness = [.duplicateEnd: 3]
    let fields = try fields(report)
    for rule in CorrectnessRule.allCases {
      #expect(
        fields["correctness.\(rule.rawValue)"] == .number(rule == .duplicateEnd ? 3 : 0))
    }
    #expect(fields["ok"] == .bool(false))
  }

  @Test("what was not measured is missing, not 0") func missing() throws {
    var report = makeReport()
    report.processes = []
    report.edgeBytesPerDevice = nil
    let fields = try fields(report)
    #expect(fields["cpu_us_per_call.edge"] == nil)
    #expect(fields["memory_bytes.nats"] == nil)
    #expect(fields["edge_bytes_per_device"] == nil)
    #expect(fields["latency_us.cancel.p50"] == nil)
    #expect(fields["find_max.highest_rate"] == nil)
  }

  @Test("a search is written beside its best stage") func search() throws {
    let stage = SearchStage(
      rate: 200, result: makeResult(), cpuPerCall: 410, ringP99Max: 25_000)
    let search = SearchReport(stages: [stage], ringP99Max: 25_000)
    let fields = try fields(makeReport(), search)
    #expect(fields["find_max.highest_rate"] == .number(200))
    #expect(fields["find_max.stages.0.holds"] == .bool(true))
    #expect(fields["find_max.stages.0.cpu_us_per_call"] == .number(410))
  }

  @Test("percentiles over time, in intervals that a chart can hold") func series() throws {
    var report = makeReport()
    var series = LatencySeries(durationSeconds: 86_400)
    #expect(series.slotSeconds == 360)
    for second in stride(from: 0, through: 90_000, by: 10) {
      series.record(.ring, .milliseconds(1), dueSeconds: Double(second))
    }
    series.record(.connect, .milliseconds(1), dueSeconds: 1)
    let points = series.points(.ring)
    #expect(points.count == 240)
    #expect(points.map { $0.1.count }.reduce(0, +) == 9_001, "what is due late is in the last one")
    report.result.series = series
    let fields = try fields(report)
    #expect(fields["series.interval_seconds"] == .number(360))
    #expect(fields["series.ring.seconds.239"] == .number(86_220))
    #expect(fields["series.ring.max.0"] == .number(1_003), "the end of the histogram's interval")
    #expect(fields["series.answer.p50.0"] == nil)
    #expect(fields["series.connect.p50.0"] == nil)
  }
}
