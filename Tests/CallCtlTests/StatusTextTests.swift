import CallTelemetry
import Testing
import callctl

@Suite struct StatusTextTests {
  @Test func theScreen() {
    let view = ClusterView(Sample.healthy, earlier: Sample.healthy, seconds: 1)
    let text = StatusText.render(view, cluster: "demo", url: "nats://a:1", color: false)
    #expect(
      text == """
        Cluster demo: healthy. 3 nodes, 4 shards, NATS 2.9.10 at nats://a:1

        NODE  ROLE         STATE    VERSION  UPTIME  CPU  MEMORY  HOLDS
        c1    coordinator  serving  0.1.0     2h 1m  0 %   35 MB  2 shards
        c2    coordinator  serving  0.1.0     2h 1m  0 %   35 MB  2 shards
        e1    edge         serving  0.1.0    1m 40s  0 %  120 MB  3 connections, 2 sessions

        Shards      4 of 4 have an owner: c1 2, c2 2
        Calls       4 placed, 8 ringing, 12 answered; 16 ended and remembered
        Devices     3 connections, 2 sessions, 24 registrations
        Per second  0 calls placed, 0 answered, 0 ended; 0 commands, 0 deliveries (0.0 % \
        retransmitted), now
        Journal     12 records, 35 kB; 0 appends/s; 0 refused and 0 without answer since start
        Bus         3 of 3 nodes connected; 0 reconnects and 0 messages dropped since start
        Latency       p50     p90     p99     max  count
          command  400 µs  900 µs  2.5 ms  150 ms     10
          (of the slowest node each, since its start)

        """)
  }

  /// The problems stay, whatever the terminal is.
  @Test(arguments: [(24, 80), (10, 40), (3, 200)]) func theScreenFitsATerminal(
    rows: Int, columns: Int
  ) {
    var node = Sample.edge("e1")
    node.bus.connected = false
    let text = StatusText.render(
      ClusterView([node]), cluster: "demo", url: "u", color: false,
      size: TerminalSize(rows: rows, columns: columns))
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
    #expect(lines.count <= rows - 1)
    #expect(lines.allSatisfy { $0.count <= columns })
    #expect(lines.first?.hasPrefix("Cluster demo: DEGRADED") == true)
  }

  @Test func degradedSaysWhyAndNamesFromOutsideCannotPaint() {
    var node = Sample.edge("e\u{1B}[31m")
    node.bus.connected = false
    let text = StatusText.render(ClusterView([node]), cluster: "demo", url: "u", color: false)
    #expect(text.contains("DEGRADED"))
    #expect(text.contains("\n  ! "))
    #expect(!text.contains("\u{1B}"))
  }

  @Test func jsonHasStableNames() throws {
    let nodes = Sample.healthy + [PushViewTests.gateway("p1")]
    let view = ClusterView(nodes, earlier: nodes, seconds: 1, pushQueue: ["fcm": 0])
    let text = try StatusJSON(view, cluster: "demo").sortedJSON()
    for name in [
      #""healthy":true"#, #""withoutOwner":[]"#, #""byOwner":{"c1":2,"c2":2}"#,
      #""perSecond":{"#, #""latencyMicroseconds":{"#, #""cpuPercent":0"#, #""cluster":"demo""#,
      #""queue":{"fcm":0}"#, #""outcomes":{"accepted":1000,"rejected":2,"tokenGone":7}"#,
      #""outcomesPerSecond":{"#, #""role":"push""#,
    ] {
      #expect(text.contains(name), "\(name) is not in \(text)")
    }
  }
}
