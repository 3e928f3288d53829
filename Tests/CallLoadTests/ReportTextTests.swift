import CallLoadKit
import Testing

@Suite("Report as text") struct ReportTextTests {
  @Test("a run that went well") func goodRun() {
    let expected = """
      callload  10,000 devices of 3,334 users, 200 calls/s for 30 s, scenario default, pb, seed 7
      cluster   1 nats-server 2.9.10, 2 coordinators, 2 edges, on this machine
      machine   2 CPUs (Some CPU), 24.00 GB memory, Linux 6.1

      Expected and actual
        devices connected   10000/10000   4000/s
        devices registered  10000/10000
        calls placed          6000/6000  200.0/s
        calls completed       6000/6000
          answered   4,000
          cancelled  2,000

      Failures by cause
        none

      Latency
        phase      count     p50     p90      p99    p99.9      max
        connect        0       –       –        –        –        –
        register       0       –       –        –        –        –
        ring         101  510 µs  910 µs  1.00 ms  2.00 ms  2.00 ms
        answer         0       –       –        –        –        –
        elsewhere      0       –       –        –        –        –
        cancel         0       –       –        –        –        –
        timeout        0       –       –        –        –        –
        hop            0       –       –        –        –        –

      Servers
        process          CPU µs/call  CPU s    memory
        edge-1                 100.0   0.60   50.0 MB
        edge-2                 110.0   0.66   51.0 MB
        coordinator-1           50.0   0.30   30.0 MB
        nats-server            150.0   0.90   40.0 MB
        sum of servers         410.0   2.46  171.0 MB
        callload itself        500.0   3.00  200.0 MB
        edge memory per connected device: 7.9 kB

      Correctness (every count must be 0)
        two winners                                 0
        no winner                                   0
        still ringing after the end                 0
        told to ring after the end                  0
        wrong reason                                0
        winner told it lost                         0
        duplicate end                               0
        command lost                                0
        unexplained error                           0
        accepted, then forgotten                    0
        timeout late                                0
        registration lost                           0
        unreachable although a device was attached  0
        an attached device was not rung             0
        signals out of order                        0
        signals lost                                0
        signals doubled                             0
        two calls of one glare                      0
        taken over wrongly                          0
        sent on wrongly                             0
        transferred wrongly                         0
        second call treated wrongly                 0

      OK: 10000/10000 devices, 6000/6000 calls, every correctness count is 0
      """
    #expect(makeReport().text(.plain).joined(separator: "\n") == expected)
  }

  @Test("what went wrong is named, with its traces, and is in the last line") func badRun() {
    var report = makeReport()
    report.result.devicesConnected = 9_998
    report.result.callsCompleted = 5_999
    report.result.failures = ["place timed out": 1, "connection refused": 2, "nothing": 0]
    report.result.failureExamples = ["place timed out": "call 2\n  waited"]
    report.result.correctness = [.twoWinners: 1, .wrongReason: 0]
    report.result.examples = [.twoWinners: ["call 1\n  b1 won\n  b2 won"]]
    report.incidents = ["edge-1 was ended by signal 9 during the run"]
    let lines = report.text(.plain)
    #expect(lines.contains("  connection refused  2"))
    let failed = lines.firstIndex(of: "  place timed out     1")
    #expect(failed.map { Array(lines[($0 + 1)...($0 + 2)]) } == ["      call 2", "        waited"])
    #expect(!lines.contains { $0.contains("nothing") })
    let broken = lines.firstIndex { $0.hasPrefix("  two winners") && $0.hasSuffix(" 1") }
    #expect(
      broken.map { Array(lines[($0 + 1)...($0 + 3)]) } == [
        "      call 1", "        b1 won", "        b2 won",
      ])
    #expect(
      lines.last
        == "FAILED: edge-1 was ended by signal 9 during the run; "
        + "2 of 10,000 devices did not connect; 1 of 6,000 calls were not completed; "
        + "two winners: 1")
  }

  @Test("servers that are not ours are left out") func foreignCluster() {
    var report = makeReport()
    report.settings.edgeURLs = ["ws://edge-1:8080"]
    report.processes = []
    let lines = report.text(.plain)
    #expect(!lines.contains("Servers"))
    #expect(lines[1] == "cluster   ws://edge-1:8080")
  }

  @Test("colours only where they are asked for") func colours() {
    let report = makeReport()
    #expect(!report.text(.plain).contains { $0.contains("\u{1B}") })
    #expect(report.text(.colored).last?.hasPrefix("\u{1B}[32mOK") == true)
  }

  @Test("exit status") func exitStatus() {
    var report = makeReport()
    #expect(Verdict(report).exitStatus == 0)
    report.result.devicesConnected -= 1
    #expect(Verdict(report).exitStatus == 1)
    report = makeReport()
    report.result.callsCompleted -= 1
    #expect(Verdict(report).exitStatus == 1)
    report = makeReport()
    report.incidents = ["nats-server exited with status 1 during the run"]
    #expect(Verdict(report).exitStatus == 1)
    report.result.interrupted = true
    #expect(Verdict(report).exitStatus == 130)
  }

  @Test("every broken rule alone fails the run", arguments: CorrectnessRule.allCases)
  func everyRule(_ rule: CorrectnessRule) {
    var report = makeReport()
    report.result.correctness[rule] = 1
    #expect(Verdict(report).exitStatus == 1)
    #expect(Verdict(report).problems == ["\(rule.title): 1"])
  }

  @Test("a run without any call is rendered, too") func emptyRun() {
    let report = RunReport(
      settings: RunSettings(), machine: MachineFacts(), result: RunResult())
    #expect(report.text(.plain).contains("  calls placed        0/0"))
    #expect(report.percentileDistributions().isEmpty)
    #expect(report.cpuPerCall() == nil)
  }

  @Test("percentile distributions name their phase") func percentiles() {
    let text = makeReport().percentileDistributions()
    #expect(text.hasPrefix("# phase ring, milliseconds\n       Value     Percentile"))
    #expect(text.contains("Total count    =          101"))
  }

  @Test("units") func units() {
    let times: [UInt64] = [0, 999, 1_000, 1_540, 9_999, 23_400, 999_940, 1_234_000]
    #expect(
      times.map { Units.time(microseconds: $0) } == [
        "0 µs", "999 µs", "1.00 ms", "1.54 ms", "10.00 ms", "23.4 ms", "999.9 ms", "1.23 s",
      ])
    #expect(
      [0, 999, 7_900, 63_200_000, 1_200_000_000].map { Units.bytes($0) } == [
        "0 B", "999 B", "7.9 kB", "63.2 MB", "1.20 GB",
      ])
    #expect(
      [0, 999, 1_000, 1_234_567].map { Units.count($0) } == ["0", "999", "1,000", "1,234,567"])
    #expect(Units.count(-1_000) == "-1,000")
    #expect(Units.fixed(0.005, 2) == "0.01")
    #expect(Units.fixed(-0.001, 2) == "0.00")
    #expect(Units.fixed(.infinity, 2) == "–")
    #expect(Units.trimmed(200, 1) == "200")
    #expect(Units.trimmed(0.5, 3) == "0.5")
    #expect(Units.duration(seconds: 30) == "30 s")
    #expect(Units.duration(seconds: 90) == "1 min 30 s")
    #expect(Units.duration(seconds: 120) == "2 min")
  }
}
