import CallTelemetry
import Testing
import callctl

@Suite struct ExplanationTests {
  /// A call from ann to bob; times of events in milliseconds.
  private static func report(
    _ legs: [(device: String, state: String)], reason: String? = nil, by: String? = nil,
    _ events: [(Int64, String?, String)]
  ) -> CallReport {
    var report = CallReport(found: true, node: "c1")
    report.app = "demo"
    report.call = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
    report.callee = "bob"
    report.caller = .init(user: "ann", device: "phone", deviceName: "Ann's phone")
    report.phase = reason == nil ? "answered" : "ended"
    report.reason = reason
    report.by = by.map { .init(user: "bob", device: $0, deviceName: "") }
    report.shard = 3
    report.legs = legs.map {
      .init(
        party: .init(user: "bob", device: $0.device, deviceName: ""), state: $0.state, session: nil)
    }
    let start: Int64 = 1_767_323_045_678_000
    report.timeline =
      [.init(atMicroseconds: start, device: "phone", user: "ann", what: "placed")]
      + events.map {
        .init(atMicroseconds: start + $0.0 * 1000, device: $0.1, user: "bob", what: $0.2)
      }
    return report
  }

  private static func sentence(_ report: CallReport) -> String {
    Explanation.of(report, user: nil).first?.text ?? ""
  }

  @Test func rangAndAnswered() {
    let report = Self.report(
      [("phone", "won")],
      [(0, "phone", "delivered"), (20, "phone", "alerting"), (3200, "phone", "answered")])
    #expect(Self.sentence(report) == "rang after 20.0 ms and answered after 3.2 s.")
  }

  @Test func rangAndAnotherAnswered() {
    let report = Self.report(
      [("ipad", "stopped"), ("phone", "won")],
      [(0, "ipad", "delivered"), (20, "ipad", "alerting"), (900, "ipad", "stopped")])
    #expect(
      Self.sentence(report) == "rang after 20.0 ms; stopped after 900 ms because phone answered.")
  }

  @Test func declinedForAllAndForItself() {
    let all = Self.report(
      [("phone", "declined")], reason: "declined", by: "phone",
      [(20, "phone", "alerting"), (500, "phone", "declined")])
    #expect(
      Self.sentence(all) == "rang after 20.0 ms and declined for all devices after 500 ms.")
    let here = Self.report(
      [("phone", "declined")], [(20, "phone", "alerting"), (500, "phone", "declined here")])
    #expect(Self.sentence(here) == "rang after 20.0 ms and declined for itself after 500 ms.")
  }

  @Test func gotTheInviteButNeverAlerted() {
    let report = Self.report(
      [("phone", "stopped")], reason: "unanswered",
      [
        (0, "phone", "delivered"), (30, "phone", "acknowledged"), (30_000, "phone", "stopped"),
        (30_010, "phone", "acknowledged"),
      ])
    #expect(
      Self.sentence(report) == "got the invite after 30.0 ms but never said that it rings: the "
        + "app did not show the call, or its SDK does not send alerting; stopped after 30.0 s "
        + "because nobody answered in time.")
  }

  @Test func neverAcknowledged() {
    let report = Self.report(
      [("phone", "stopped")], reason: "cancelled",
      [
        (0, "phone", "delivered"), (500, "phone", "repeated"), (1500, "phone", "repeated"),
        (1800, "phone", "session lost"), (5000, "phone", "stopped"),
      ])
    #expect(
      Self.sentence(report) == "did not ring: the invite was sent 3 times and never acknowledged, "
        + "so its connection was dead or the app did not run; stopped after 5.0 s because the "
        + "caller cancelled. Its session broke after 1.8 s.")
  }

  @Test func busyGoneAndStillRinging() {
    #expect(
      Self.sentence(Self.report([("phone", "busy")], [(15, "phone", "busy")]))
        == "did not ring: it said that it is busy after 15.0 ms.")
    #expect(
      Self.sentence(
        Self.report(
          [("phone", "gone")],
          [(0, "phone", "delivered"), (10, "phone", "alerting"), (200, "phone", "left")]))
        == "rang after 10.0 ms and then left after 200 ms.")
    #expect(
      Self.sentence(Self.report([("phone", "alerting")], [(10, "phone", "alerting")]))
        == "rang after 10.0 ms and rings still.")
  }

  @Test func theCallersDeviceOfTheSameIdIsSomebodyElse() {
    var report = Self.report(
      [("phone", "stopped")], reason: "cancelled", [(0, "phone", "delivered")])
    report.timeline?.append(
      .init(atMicroseconds: 1_767_323_045_700_000, device: "phone", user: "ann", what: "alerting"))
    #expect(Self.sentence(report).hasPrefix("did not ring"))
  }

  @Test func afterATakeOverNothingIsMadeUp() {
    let report = Self.report(
      [("ipad", "stopped"), ("phone", "won")],
      [(600, "phone", "answered"), (4300, nil, "shard taken over"), (4301, "ipad", "stopped")])
    let sentences = Explanation.of(report, user: nil).map(\.text)
    #expect(sentences[0].hasPrefix("had a part in the call, but whether it rang is not known"))
    #expect(sentences[1] == "answered after 600 ms.")
  }

  @Test func devicesWithoutAPart() {
    let report = Self.report([("phone", "won")], [])
    var user = UserReport(found: true, node: "c1")
    let start: Int64 = 1_767_323_045_678
    user.devices = [
      .init(
        device: "late", name: "", session: "1f-2", client: "", attachedAtMilliseconds: start + 5000,
        registeredAtMilliseconds: nil, pushProviders: []),
      .init(
        device: "asleep", name: "", session: nil, client: "", attachedAtMilliseconds: nil,
        registeredAtMilliseconds: start - 1, pushProviders: ["apns"]),
      .init(
        device: "full", name: "", session: "1f-3", client: "", attachedAtMilliseconds: start - 1,
        registeredAtMilliseconds: nil, pushProviders: []),
    ]
    let texts = Explanation.of(report, user: user).dropFirst().map(\.text)
    #expect(texts.count == 3)
    #expect(texts[0].contains("its present session began 5.0 s after the call was placed"))
    #expect(texts[1].hasPrefix("did not ring: it is registered but had no session"))
    #expect(texts[2].contains("as many live calls as one device may have"))
  }

  // MARK: Woken by a push

  /// A sleeper's leg; `events` are of its push that rings.
  private static func sleeper(
    _ state: String, reason: String? = "unanswered",
    _ events: [(Int64, String, String?)], others: [(Int64, String?, String)] = []
  ) -> CallReport {
    var report = report([("phone", state)], reason: reason, others)
    let start = report.timeline![0].atMicroseconds
    report.timeline! += events.map {
      .init(
        atMicroseconds: start + $0.0 * 1000, device: "phone", user: "bob", what: $0.1,
        purpose: "ring", reason: $0.2)
    }
    return report
  }

  @Test("no gateway took the job: that is said, and where to look") func pushWithoutGateway() {
    let report = Self.sleeper(
      "stopped", [(2, "push queued", nil)], others: [(30_000, "phone", "ended")])
    #expect(
      Self.sentence(report)
        == "did not come: it had no session, and the push that was to wake it was "
        + "queued after 2.0 ms, but no push gateway has said what became of it: does one run that "
        + "serves its provider? callctl status tells; stopped after 30.0 s because nobody answered "
        + "in time.")
    #expect(CallText.render(report, user: nil).contains("push queued (ring)"))
  }

  @Test(
    "each outcome has its words",
    arguments: [
      ("push accepted", nil, "accepted by its provider after 300 ms, but it did not attach"),
      ("push token gone", nil, "found its token gone after 300 ms"),
      ("push rejected", "BadTopic", "was refused after 300 ms (BadTopic)"),
      ("push expired", nil, "was not sent before its deadline"),
      ("push failed", "no route", "failed after 300 ms (no route)"),
    ] as [(String, String?, String)])
  func pushOutcomes(what: String, reason: String?, words: String) {
    for state in ["stopped", "gone", "waking"] {
      let report = Self.sleeper(state, [(2, "push queued", nil), (300, what, reason)])
      let sentence = Self.sentence(report)
      #expect(sentence.hasPrefix("did not come: it had no session"))
      #expect(sentence.contains(words), "\(sentence)")
      #expect(!sentence.contains("gateway has said"))
    }
  }

  @Test("a silent socket and a push beside it") func pushBesideTheSocket() {
    let report = Self.sleeper(
      "stopped", [(2000, "push queued", nil)],
      others: [(0, "phone", "delivered"), (500, "phone", "repeated")])
    let sentence = Self.sentence(report)
    #expect(sentence.hasPrefix("did not ring: the invite was sent 2 times and never acknowledged"))
    #expect(sentence.contains(" The push that was to wake it was queued after 2.0 s, but no push"))
  }

  @Test("a push of another purpose woke nobody") func cleanUpsAreNoRings() {
    var report = Self.report([("phone", "stopped")], reason: "cancelled", [])
    let start = report.timeline![0].atMicroseconds
    report.timeline?.append(
      .init(
        atMicroseconds: start, device: "phone", user: "bob", what: "push queued",
        purpose: "missedNotice"))
    #expect(Self.sentence(report).hasPrefix("did not ring: it had no session; stopped"))
  }

  @Test("a woken device that rang is told of like any other") func pushThatWorked() {
    let report = Self.sleeper(
      "won", reason: nil, [(2, "push queued", nil), (300, "push accepted", nil)],
      others: [
        (900, "phone", "delivered"), (950, "phone", "alerting"), (2000, "phone", "answered"),
      ])
    #expect(Self.sentence(report) == "rang after 950 ms and answered after 2.0 s.")
  }

  // MARK: Where not all is kept

  @Test func whatHadNoRoomIsCountedAndNothingIsMadeUpOfIt() {
    var report = Self.report(
      [("phone", "stopped")], reason: "cancelled",
      [(0, "phone", "delivered"), (5000, "phone", "stopped")])
    #expect(Self.sentence(report).contains("did not acknowledge it"))
    #expect(!CallText.render(report, user: nil).contains("had no room"))
    report.timelineDropped = 0
    #expect(!CallText.render(report, user: nil).contains("had no room"))
    report.timelineDropped = 17
    #expect(
      Self.sentence(report)
        == "never said that it rings, and whether it got the invite is not known: "
        + "more happened in the call than is kept; stopped after 5.0 s because the caller cancelled."
    )
    #expect(
      CallText.render(report, user: nil).contains(
        """
        +5.0 s  phone           stopped
        (17 further events had no room: acknowledgements, repetitions and pushes give way first.)

        """))
  }

  @Test func nobodyAtAll() {
    let report = Self.report([], reason: "unreachable", [(0, nil, "ended")])
    #expect(Explanation.whyNobody(report, user: nil)?.contains("had no device") == true)
    let text = CallText.render(report, user: nil)
    #expect(text.contains("No device of the callee had a part in it."))
    #expect(text.contains("bob had no device with a session"))
  }

  @Test func theWholeReport() {
    let report = Self.report(
      [("ipad", "won")],
      [(0, "ipad", "delivered"), (20, "ipad", "alerting"), (3200, "ipad", "answered")])
    #expect(
      CallText.render(report, user: nil)
        == """
        Call    7d444840-9dc0-11d1-b245-5ffdce74fad2
        State   answered
        Caller  ann, device phone (Ann's phone)
        Callee  bob in app demo
        Shard   3 on c1
        Placed  2026-01-02T03:04:05.678Z

        DEVICE  NAME  STATE  SESSION
        ipad    -     won    -

            TIME  DEVICE          EVENT
           +0 µs  phone (caller)  placed
           +0 µs  ipad            delivered
        +20.0 ms  ipad            alerting
          +3.2 s  ipad            answered

        Why each device rang or did not
          ipad rang after 20.0 ms and answered after 3.2 s.

        """)
  }
}

@Suite struct UserTextTests {
  @Test func devicesAndCalls() {
    var report = UserReport(found: true, node: "c1")
    report.app = "demo"
    report.user = "ann"
    report.shard = 7
    report.devices = [
      .init(
        device: "phone", name: "Ann's\u{1B}[2J", session: "1f-2", client: "sdk 1",
        attachedAtMilliseconds: 40_000, registeredAtMilliseconds: nil, pushProviders: [])
    ]
    report.calls = [.init(call: "c", phase: "ended", reason: "busy")]
    #expect(
      UserText.render(report, now: 100_000)
        == """
        User   ann in app demo
        Shard  7 on c1

        DEVICE  NAME            SESSION  ATTACHED   REGISTERED  PUSH  CLIENT
        phone   Ann's\\u001b[2J  1f-2     1m 0s ago  no          -     sdk 1

        CALL  STATE
        c     ended, busy

        """)
  }
}

@Suite struct LifetimeTests {
  @Test(arguments: [("30", 30), ("30s", 30), ("10m", 600), ("1h", 3600), ("7d", 604_800)])
  func read(text: String, seconds: Int64) {
    #expect(Lifetime.seconds(text) == seconds)
  }
  @Test(arguments: ["", "0", "-1", "h", "1w", "99999999999", "1.5h"])
  func refused(text: String) {
    #expect(Lifetime.seconds(text) == nil)
  }
}
