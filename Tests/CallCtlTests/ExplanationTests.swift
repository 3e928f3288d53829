import CallTelemetry
import Testing
import callctl

@Suite struct ExplanationTests {
  private static let answered = Story.report(
    [("phone", "won")],
    [(0, "phone", "delivered"), (20, "phone", "alerting"), (3200, "phone", "answered")])
  private static let endedByApp = Story.report(
    [("phone", "stopped")], reason: "cancelled",
    [
      (20, "phone", "alerting"), (5000, nil, "ended by the app's server"),
      (5000, "phone", "stopped"),
    ])

  @Test(
    arguments: [
      (answered, "rang after 20.0 ms and answered after 3.2 s."),
      (
        Story.report(
          [("ipad", "stopped"), ("phone", "won")],
          [(0, "ipad", "delivered"), (20, "ipad", "alerting"), (900, "ipad", "stopped")]),
        "rang after 20.0 ms; stopped after 900 ms because phone answered."
      ),
      (
        endedByApp,
        "rang after 20.0 ms; stopped after 5.0 s because the app's server ended the call."
      ),
      (
        Story.report(
          [("phone", "declined")], reason: "declined", by: "phone",
          [(20, "phone", "alerting"), (500, "phone", "declined")]),
        "rang after 20.0 ms and declined for all devices after 500 ms."
      ),
      (
        Story.report(
          [("phone", "declined")], [(20, "phone", "alerting"), (500, "phone", "declined here")]),
        "rang after 20.0 ms and declined for itself after 500 ms."
      ),
      (
        Story.report(
          [("phone", "stopped")], reason: "unanswered",
          [
            (0, "phone", "delivered"), (30, "phone", "acknowledged"), (30_000, "phone", "stopped"),
            (30_010, "phone", "acknowledged"),
          ]),
        "got the invite after 30.0 ms but never said that it rings: the app did not show the call, "
          + "or its SDK does not send alerting; stopped after 30.0 s because nobody answered in time."
      ),
      (
        Story.report(
          [("phone", "stopped")], reason: "cancelled",
          [
            (0, "phone", "delivered"), (500, "phone", "repeated"), (1500, "phone", "repeated"),
            (1800, "phone", "session lost"), (5000, "phone", "stopped"),
          ]),
        "did not ring: the invite was sent 3 times and never acknowledged, so its connection was "
          + "dead or the app did not run; stopped after 5.0 s because the caller cancelled. Its "
          + "session broke after 1.8 s."
      ),
      (
        Story.report([("phone", "busy")], [(15, "phone", "busy")]),
        "did not ring: it said that it is busy after 15.0 ms."
      ),
      (
        Story.report(
          [("phone", "gone")],
          [(0, "phone", "delivered"), (10, "phone", "alerting"), (200, "phone", "left")]),
        "rang after 10.0 ms and then left after 200 ms."
      ),
      (
        Story.report([("phone", "alerting")], [(10, "phone", "alerting")]),
        "rang after 10.0 ms and rings still."
      ),
    ] as [(CallReport, String)])
  func whatBecameOfADevice(report: CallReport, sentence: String) {
    #expect(Story.sentence(report) == sentence)
  }

  @Test("a device that had the call says so, and who has it since")
  func takenOver() {
    let report = Story.report(
      [("phone", "moved"), ("ipad", "won")],
      [
        (0, "phone", "delivered"), (20, "phone", "alerting"), (900, "phone", "answered"),
        (900, "ipad", "stopped"), (61_000, "ipad", "taken over"),
      ])
    let texts = Story.sentences(report)
    #expect(texts[0] == "rang after 20.0 ms and answered after 900 ms; ipad has it since 61.0 s.")
    #expect(texts[1] == "took the call over after 61.0 s.")
    let cut = Story.report([("phone", "moved")], [(20, "phone", "alerting")])
    #expect(Story.sentence(cut) == "rang after 20.0 ms and answered; another device has it since.")
  }

  @Test("a device whose call went on to others rings no more, and is told apart from theirs")
  func wentOn() {
    var report = Story.report(
      [("phone", "diverted"), ("ipad", "diverted")],
      [
        (0, "phone", "delivered"), (0, "ipad", "delivered"), (20, "phone", "alerting"),
        (5000, nil, "diverted"), (5000, "phone", "stopped"), (5000, "ipad", "stopped"),
      ])
    report.legs?.append(
      .init(
        party: .init(user: "carol", device: "phone", deviceName: "Carol's"), state: "won",
        session: nil))
    report.timeline?.append(
      .init(
        atMicroseconds: 1_767_323_053_678_000, device: "phone", user: "carol", what: "answered"))
    let why = CallView(report, user: nil).why
    #expect(
      why[0].text == "rang after 20.0 ms; stopped after 5.0 s because the call went on to others.")
    #expect(
      why[1].text.hasSuffix(
        "; stopped after 5.0 s because the call went on to others: its connection was too slow, or dead."
      ))
    #expect(why[2].user == "carol")
    let text = Story.text(report)
    #expect(
      text.contains("\n  carol (phone) answered without having said that it rings after 8.0 s."))
    #expect(text.contains("\ncarol  phone   Carol's  won       -\n"), "\(text)")
  }

  @Test("the other side's device is named with its user")
  func answeredBySomebodyElse() {
    var report = Story.report(
      [("phone", "stopped")],
      [(0, "phone", "delivered"), (20, "phone", "alerting"), (900, "phone", "stopped")])
    report.legs?.append(
      .init(party: .init(user: "carol", device: "pad", deviceName: ""), state: "won", session: nil))
    #expect(
      Story.sentence(report)
        == "rang after 20.0 ms; stopped after 900 ms because pad of carol answered.")
  }

  /// Two users who call each other: the call that gives way ends before a round trip.
  @Test("who had no time to acknowledge has no slow connection", arguments: [1, 199, 200, 3000])
  func noTime(milliseconds: Int64) {
    let report = Story.report(
      [("phone", "stopped")], reason: "glare",
      [(0, "phone", "delivered"), (milliseconds, "phone", "stopped")])
    let sentence = Story.sentence(report)
    #expect(sentence.contains("connection was too slow") == (milliseconds >= 200))
    #expect(sentence.contains("was sent the invite only") == (milliseconds < 200))
    #expect(sentence.contains("because both users called each other, and the other call went on"))
  }

  @Test("calls of strangers that have the same id are told apart")
  func sameID() throws {
    func found(_ callee: String) -> CallReport {
      var report = Story.report([], reason: "busy", [])
      report.callee = callee
      return report
    }
    let unknown = CallReport(found: false, node: "c2")
    #expect(try CallReport.only([unknown], "x") == nil)
    #expect(try CallReport.only([unknown, found("bob"), found("bob")], "x")?.callee == "bob")
    let error = #expect(throws: CallctlError.self) {
      try CallReport.only([found("bob"), unknown, found("eve\u{1B}[2J")], "x")
    }
    #expect(
      error?.description == "2 calls have the id x. Say which one: --app demo --user bob, or "
        + "--app demo --user eve\\u001b[2J.")
  }

  @Test func theCallersDeviceOfTheSameIdIsSomebodyElse() {
    var report = Story.report(
      [("phone", "stopped")], reason: "cancelled", [(0, "phone", "delivered")])
    report.timeline?.append(
      .init(atMicroseconds: 1_767_323_045_700_000, device: "phone", user: "ann", what: "alerting"))
    #expect(Story.sentence(report).hasPrefix("did not ring"))
  }

  @Test func afterATakeOverNothingIsMadeUp() {
    let report = Story.report(
      [("ipad", "stopped"), ("phone", "won")],
      [(600, "phone", "answered"), (4300, nil, "shard taken over"), (4301, "ipad", "stopped")])
    let sentences = Story.sentences(report)
    #expect(sentences[0].hasPrefix("had a part in the call, but whether it rang is not known"))
    #expect(sentences[1] == "answered after 600 ms.")
  }

  @Test func devicesWithoutAPart() {
    let report = Story.report([("phone", "won")], [])
    var user = UserReport(found: true, node: "c1")
    let start: Int64 = 1_767_323_045_678
    user.devices = [
      Story.device("late", session: "1f-2", attached: start + 5000),
      Story.device("asleep", registered: start - 1, push: ["apns"]),
      Story.device("full", session: "1f-3", attached: start - 1),
    ]
    let texts = CallView(report, user: user).why.dropFirst().map(\.text)
    #expect(texts.count == 3)
    #expect(texts[0].contains("its present session began 5.0 s after the call was placed"))
    #expect(texts[1].hasPrefix("did not ring: it is registered but had no session"))
    #expect(texts[2].contains("as many live calls as one device may have"))
  }

  // MARK: Where not all is kept

  @Test func whatHadNoRoomIsCountedAndNothingIsMadeUpOfIt() {
    var report = Story.report(
      [("phone", "stopped")], reason: "cancelled",
      [(0, "phone", "delivered"), (5000, "phone", "stopped")])
    #expect(Story.sentence(report).contains("did not acknowledge it"))
    #expect(!Story.text(report).contains("had no room"))
    report.timelineDropped = 0
    #expect(!Story.text(report).contains("had no room"))
    report.timelineDropped = 17
    #expect(
      Story.sentence(report)
        == "was sent the invite, but whether it rang is not known: more happened in the call than "
        + "is kept; stopped after 5.0 s because the caller cancelled."
    )
    #expect(
      Story.text(report).contains(
        """
        +5.0 s  bob   phone           stopped
        (17 further events had no room: acknowledgements, repetitions and pushes give way first.)

        """))
  }

  /// Any event but those that decide may be among those that had no room.
  @Test func whereEventsHadNoRoomNobodyIsSaidNotToHaveRung() {
    let unknown = "but whether it rang is not known: more happened in the call than is kept"
    let stopped = "; stopped after 30.0 s because nobody answered in time."
    for (state, events, sentence) in [
      (
        "stopped",
        [
          (0, "phone", "delivered"), (30, "phone", "acknowledged"), (30_000, "phone", "stopped"),
        ], "got the invite after 30.0 ms, \(unknown)\(stopped)"
      ),
      ("stopped", [(30_000, "phone", "stopped")], "had a part in the call, \(unknown)\(stopped)"),
      (
        "gone", [(0, "phone", "delivered"), (200, "phone", "left")],
        "was sent the invite and left after 200 ms, \(unknown)."
      ),
      ("gone", [], "had a part in the call and left, \(unknown)."),
      ("won", [(3200, "phone", "answered")], "answered after 3.2 s."),
      ("declined", [(500, "phone", "declined")], "declined."),
      ("busy", [(15, "phone", "busy")], "said that it is busy after 15.0 ms."),
    ] as [(String, [(Int64, String?, String)], String)] {
      var report = Story.report([("phone", state)], reason: "unanswered", events)
      #expect(Story.sentence(report) != sentence)
      report.timelineDropped = 1
      #expect(Story.sentence(report) == sentence)
    }
  }

  @Test func whatRingsIsSaidToAlsoWhereItsAlertingHadNoRoom() {
    var report = Story.report([("phone", "alerting")], [(0, "phone", "delivered")])
    report.timelineDropped = 1
    #expect(Story.sentence(report) == "rang and rings still.")
  }

  @Test func theAppsServerEndedIt() {
    let text = Story.text(Self.endedByApp)
    #expect(text.contains("ended, cancelled by the app's server"))
  }

  @Test func nobodyAtAll() {
    let report = Story.report([], reason: "unreachable", [(0, nil, "ended")])
    #expect(CallView(report, user: nil).whyNobody?.contains("had no device") == true)
    let text = Story.text(report)
    #expect(text.contains("No device of the callee had a part in it."))
    #expect(text.contains("bob had no device with a session"))
  }

  @Test func theWholeReport() {
    #expect(
      Story.text(Self.answered)
        == """
        Call    7d444840-9dc0-11d1-b245-5ffdce74fad2
        State   answered
        Caller  ann, device phone (Ann's phone)
        Callee  bob in app demo
        Shard   3 on c1
        Placed  2026-01-02T03:04:05.678Z

        USER  DEVICE  NAME  STATE  SESSION
        bob   phone   -     won    -

            TIME  USER  DEVICE          EVENT
           +0 µs  ann   phone (caller)  placed
           +0 µs  bob   phone           delivered
        +20.0 ms  bob   phone           alerting
          +3.2 s  bob   phone           answered

        Why each device rang or did not
          bob (phone) rang after 20.0 ms and answered after 3.2 s.

        """)
  }
}
