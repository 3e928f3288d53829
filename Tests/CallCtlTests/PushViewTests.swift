import CallTelemetry
import Testing
import callctl

/// The view that an operator has of pushes.
@Suite struct PushViewTests {
  static func gateway(
    _ name: String, lane: String = "apns-production", depth: Int? = 0,
    _ change: (inout PushStatus) -> Void = { _ in }
  ) -> NodeStatus {
    var pool = PushStatus.Pool()
    pool.name = "calls"
    pool.provider = "apns"
    pool.lane = lane
    pool.inFlight = 3
    pool.waiting = 1
    pool.connected = 2
    pool.outcomes = ["accepted": 1000, "tokenGone": 7, "rejected": 2]
    pool.p50 = 4200
    pool.p99 = 31_000
    var push = PushStatus()
    push.pools = [pool]
    push.lanes = [.init(lane: lane, depth: depth)]
    change(&push)
    var status = Sample.edge(name, process: 30)
    status.role = "push"
    status.edge = nil
    status.push = push
    return status
  }

  private static func screen(_ view: ClusterView) -> String {
    StatusText.render(view, cluster: "demo", url: "nats://a:1", color: false)
  }

  @Test func withoutPushesTheScreenIsSilentAboutThem() {
    #expect(!Self.screen(ClusterView(Sample.healthy)).contains("Push"))
  }

  @Test func aTopicWithoutAnEntryIsAProblemForAWhile() throws {
    func topic(_ name: String, _ jobs: UInt64, ago seconds: Double) -> PushStatus.Unserved {
      PushStatus.Unserved(
        provider: "apns", environment: "production", topic: name, jobsTotal: jobs,
        secondsAgo: seconds)
    }
    let gateways = [
      Self.gateway("p1") {
        $0.unserved = [topic("org.a", 2, ago: 30), topic("org.b", 9, ago: 601)]
      },
      Self.gateway("p2") { $0.unserved = [topic("org.a", 3, ago: 500)] },
      Self.gateway("p3"),
    ]
    let view = ClusterView(Sample.healthy + gateways)
    #expect(view.problems.count == 1)
    let line = try #require(view.problems.first)
    #expect(line.hasPrefix("5 push jobs were given up: no gateway has an entry for the apns topic"))
    #expect(line.contains("org.a (production)") && line.contains("file of providers"))
    let many = Self.gateway("p1") { status in
      status.unserved = (0..<8).map { topic("org.\($0)", 1, ago: 1) }
    }
    let crowded = ClusterView(Sample.healthy + [many])
    #expect(crowded.problems.count == 6)
    #expect(crowded.problems.last?.hasPrefix("3 more push topics") == true)
  }

  @Test func theScreen() {
    let before = Sample.healthy + [Self.gateway("p1")]
    var now = before
    now[3].push?.pools[0].outcomes["accepted"] = 1050
    let view = ClusterView(now, earlier: before, seconds: 2, pushQueue: ["apns-production": 4])
    #expect(view.isHealthy)
    #expect(view.push.outcomesPerSecond["accepted"] == 25)
    let text = Self.screen(view)
    #expect(
      text.contains(
        """

        Push queue  apns-production 4
        Pushes      1050 accepted (25.0/s), 7 tokenGone (0/s), 2 rejected (0/s)
        POOL   GATEWAY  LANE             IN FLIGHT  WAIT  CONNECTED  ACCEPTED  GONE  REJECTED  FAILED  \
        EXPIRED     p50      p99
        calls  p1       apns-production          3     1          2      1050     7         2       0  \
              0  4.2 ms  31.0 ms

        """), "\(text)")
    #expect(text.contains("1 push pool, 3 in flight"))
  }

  @Test func jobsThatNobodyTakesAreAProblem() {
    let view = ClusterView(
      Sample.healthy + [Self.gateway("p1")],
      pushQueue: ["apns-production": 9, "fcm": 1, "web-push": 0])
    #expect(view.problems.count == 1)
    #expect(view.problems[0].hasPrefix("1 push job waits in fcm, which no gateway serves"))
    #expect(view.problems[0].contains("Start one with: callnode push"))
    #expect(view.problems[0].hasSuffix("without one, jobs go after an hour."))
    var leaving = Self.gateway("p1")
    leaving.state = "leaving"
    let other = ClusterView(Sample.healthy + [leaving], pushQueue: ["apns-production": 9])
    #expect(other.problems.count == 1)
    #expect(other.problems[0].hasPrefix("9 push jobs wait in apns-production"))
    // Without any gateway, too.
    #expect(Self.screen(ClusterView(Sample.healthy, pushQueue: ["fcm": 2])).contains("fcm 2"))
  }

  /// Where callctl did not ask the queue itself, gateways say what they last saw.
  @Test func theDeepestThatAGatewaySawCounts() {
    let view = ClusterView(
      Sample.healthy + [
        Self.gateway("p1", depth: 3), Self.gateway("p2", depth: 5), Self.gateway("p3", depth: nil),
      ])
    #expect(view.push.queue == ["apns-production": 5])
  }

  @Test func aPoolThatFailsMoreThanItSendsIsAProblem() {
    let before = Sample.healthy + [Self.gateway("p1")]
    #expect(ClusterView(before, earlier: before, seconds: 1).isHealthy, "what stands is none")
    var now = before
    now[3].push?.pools[0].outcomes["accepted"] = 1004
    now[3].push?.pools[0].outcomes["rejected"] = 5
    #expect(ClusterView(now, earlier: before, seconds: 1).isHealthy)
    now[3].push?.pools[0].outcomes["failed"] = 2
    now[3].push?.pools[0].lastError = "403 InvalidProviderToken \u{1B}[2J"
    let view = ClusterView(now, earlier: before, seconds: 1)
    #expect(
      view.problems == [
        "5 of 9 pushes of calls at p1 were not sent just now: 403 InvalidProviderToken \u{1B}[2J. "
          + "See its log."
      ])
    let text = Self.screen(view)
    #expect(text.contains("calls, newest trouble: 403 InvalidProviderToken"))
    #expect(!text.contains("\u{1B}"))
  }

  @Test func whatIsTurnedAwayOrNotReportedIsANote() {
    let before = Sample.healthy + [Self.gateway("p1")]
    var now = before
    now[3].push?.counts = ["turnedAway": 12, "reportsGivenUp": 2]
    let view = ClusterView(now, earlier: before, seconds: 1)
    #expect(view.isHealthy)
    #expect(view.notes.count == 2)
    #expect(view.notes[0].hasPrefix("p1 turned 12 push jobs away"))
    #expect(view.notes[1].hasPrefix("2 reports of p1"))
  }

  /// A gateway that was not there before counts from the next sample on.
  @Test func aNewGatewayIsNoBurst() {
    let view = ClusterView(
      Sample.healthy + [Self.gateway("p1")], earlier: Sample.healthy, seconds: 1)
    #expect(view.push.outcomesPerSecond["accepted"] ?? 0 == 0)
    #expect(view.push.outcomes["accepted"] == 1000)
  }

  @Test func nonsenseFromANodeDoesNoHarm() throws {
    func wild(_ name: String) -> NodeStatus {
      Self.gateway(name, depth: .max) {
        $0.pools[0].outcomes = ["accepted": 0, "failed": .max]
        $0.pools[0].inFlight = .max
        $0.pools.append($0.pools[0])
        $0.pools[0].p99 = .min
        $0.counts = ["turnedAway": .max, "reportsGivenUp": .max]
      }
    }
    var before = [wild("p1"), wild("p2"), Sample.edge("e1"), Sample.edge("e2", process: 11)]
    for node in [0, 1] {
      before[node].push?.counts = [:]
      for pool in [0, 1] { before[node].push?.pools[pool].outcomes = [:] }
    }
    for node in [2, 3] { before[node].edge?.connections = 0 }
    var now = [wild("p1"), wild("p2"), Sample.edge("e1"), Sample.edge("e2", process: 11)]
    for node in [2, 3] {
      now[node].edge?.connections = .max
      now[node].edge?.commandsTimedOutTotal = .max
      now[node].bus.dropped = .max
      now[node].cpuSeconds = 1e300
    }
    let view = ClusterView(now, earlier: before, seconds: 0.002)
    #expect(view.connections == .max)
    #expect(view.push.outcomes["failed"] == .max)
    #expect(view.problems.contains { $0.contains("pushes of calls at p1 were not sent") })
    #expect(!Self.screen(view).isEmpty)
    #expect(try StatusJSON(view, cluster: "c").sortedJSON().contains("push"))
  }

  // MARK: callctl user

  private static func user(_ devices: [UserReport.Device]) -> UserReport {
    var report = UserReport(found: true, node: "c1")
    report.app = "demo"
    report.user = "bob"
    report.shard = 3
    report.devices = devices
    report.calls = []
    return report
  }

  private static func token(
    _ kind: String, _ topic: String, _ fingerprint: String
  ) -> UserReport.Token {
    var token = UserReport.Token()
    (token.kind, token.topic, token.fingerprint) = (kind, topic, fingerprint)
    (token.provider, token.environment) = ("apns", "production")
    token.trust = fingerprint.isEmpty ? nil : "proven"
    return token
  }

  @Test func whatWakesAUser() {
    var phone = Story.device("phone", name: "Bob's phone", registered: 40_000, push: ["apns"])
    phone.tokens = [
      Self.token("voip", "org.example.app.voip", "0a1b2c3d4e5f"),
      Self.token("alert", "org.example.app", ""),
    ]
    phone.dialect = "telnyx"
    phone.capabilities = ["missed", "answeredElsewhere"]
    let web = Story.device("web", session: "7-1", attached: 50_000)
    let text = UserText.render(Self.user([phone, web]), now: 100_000)
    #expect(
      text.contains(
        """

        PUSH TO  KIND   PROVIDER  ENVIRONMENT  TOPIC                 FINGERPRINT   TOKEN   DIALECT  \
        TAKES
        phone    voip   apns      production   org.example.app.voip  0a1b2c3d4e5f  proven  telnyx   \
        missed, answeredElsewhere
        phone    alert  apns      production   org.example.app       -             -       telnyx   \
        missed, \
        answeredElsewhere

        """), "\(text)")
    // Who cannot be woken has no such table.
    #expect(!UserText.render(Self.user([web]), now: 100_000).contains("PUSH TO"))
  }
}
