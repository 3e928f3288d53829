import CallCore
import Testing

/// Pushes that are sent when a call is over.
@Suite struct PushCleanUpTests {
  /// b1 sleeps and takes what is given; b2 has a session and no token.
  func ringing(
    can: PushCapabilities, alert: String? = nil, outcome: PushOutcome = .accepted
  ) -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: alert, can: can)
    bench.attach("b2")
    bench.place()
    bench.report(outcome, "b1", token: "v1")
    _ = bench.take()
    return bench
  }

  enum End: String, Sendable {
    case answered, declined, cancelled, unanswered, declinedHere
  }

  func end(_ end: End, _ bench: inout Bench) {
    switch end {
    case .answered: bench.answer("b2")
    case .declined: bench.say(.decline(.everywhere), "b2")
    case .cancelled: bench.caller(.cancel)
    case .unanswered: bench.pass(.seconds(30))
    case .declinedHere:
      bench.say(.decline(.here), "b2")
      bench.pass(.seconds(30))
    }
  }

  static let table: [(PushCapabilities, End, PushPurpose?)] = {
    let all: PushCapabilities = [.missed, .answeredElsewhere, .cancel, .ended]
    return [
      (all, .answered, .answeredElsewhere), (all, .declined, .answeredElsewhere),
      (all, .cancelled, .missed), (all, .unanswered, .missed),
      (.missed, .answered, nil), (.missed, .declined, nil), (.missed, .cancelled, .missed),
      (.missed, .unanswered, .missed),
      (.answeredElsewhere, .answered, .answeredElsewhere),
      (.answeredElsewhere, .declined, .answeredElsewhere), (.answeredElsewhere, .cancelled, nil),
      (.answeredElsewhere, .unanswered, nil),
      (.cancel, .answered, .cancel), (.cancel, .declined, .cancel), (.cancel, .cancelled, .cancel),
      (.cancel, .unanswered, .cancel),
      (.ended, .answered, .ended), (.ended, .declined, .ended), (.ended, .cancelled, .ended),
      (.ended, .unanswered, .ended),
      ([.missed, .ended], .answered, .ended), ([.missed, .cancel], .answered, .cancel),
      ([.answeredElsewhere, .cancel], .unanswered, .cancel),
      ([], .answered, nil), ([], .declined, nil), ([], .cancelled, nil), ([], .unanswered, nil),
    ]
  }()

  @Test("the one clean-up that the SDK takes", arguments: table)
  func cleanUp(can: PushCapabilities, how: End, expected: PushPurpose?) {
    var bench = ringing(can: can, alert: "a1")
    end(how, &bench)
    #expect(bench.pushes("b1") == (expected.map { [$0] } ?? []))
    let token = expected == .ended ? "a1" : "v1"
    for job in bench.pushes {
      #expect(job.token.token == token)
      #expect(job.reason != nil)
      #expect(job.deadline == bench.now + .seconds(30))
    }
    #expect(bench.pushes("b2").isEmpty)
    bench.pass(.seconds(60))
    #expect(bench.pushes.count == (expected == nil ? 0 : 1), "at most one")
  }

  @Test("what needs no report of a call goes to no VoIP token") func endedNeedsAnAlertToken() {
    var bench = ringing(can: [.ended, .missedNotice])
    end(.cancelled, &bench)
    #expect(bench.pushes.isEmpty)
  }

  @Test("whether the ring had left is in the job", arguments: [nil, PushOutcome.accepted])
  func tellsOfTheRing(report: PushOutcome?) {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: .cancel)
    bench.place()
    if let report { bench.report(report, "b1", token: "v1") }
    bench.caller(.cancel)
    #expect(bench.pushes.map(\.isRingUnknown) == [false, report == nil])
  }

  @Test("who said what is in the job") func tellsWho() {
    let table: [(PushCapabilities, End, EndReason, DeviceID)] = [
      (.answeredElsewhere, .answered, .answeredElsewhere, "b2"),
      (.cancel, .declined, .declined, "b2"), (.cancel, .cancelled, .cancelled, "alice1"),
    ]
    for (can, how, reason, device) in table {
      var bench = ringing(can: can)
      end(how, &bench)
      #expect(bench.pushes.first?.reason == reason)
      #expect(bench.pushes.first?.by?.device == device)
    }
  }

  @Test(
    "never to the device that answered, declined or was busy",
    arguments: [CallVerb.answer(description: ""), .decline(.everywhere), .decline(.here), .busy])
  func notToWhoCausedIt(verb: CallVerb) {
    var bench = ringing(can: [.missed, .answeredElsewhere, .cancel, .ended], alert: "a1")
    bench.say(verb, "b1")
    switch verb {
    case .answer: bench.say(.hangUp, "b1")
    case .decline(.here), .busy: bench.caller(.cancel)
    default: break
    }
    #expect(bench.pushes.isEmpty)
  }

  @Test("a device that attached since hears it over its socket") func attachedSince() {
    var bench = ringing(can: [.missed, .cancel])
    bench.attach("b1", edge: 2)
    bench.close("b1", session: Bench.session("b1", edge: 2))
    bench.caller(.cancel)
    #expect(bench.pushes.isEmpty)
    bench.attach("b1", edge: 3)
    #expect(bench.deliveries(to: "b1", edge: 3).count == 1)
  }

  @Test(
    "pushed for its silence: the end goes both ways, unless it has acknowledged since",
    arguments: [false, true])
  func silentSocket(acknowledges: Bool) {
    var bench = Bench()
    let can: PushCapabilities = acknowledges ? [.cancel, .missed, .missedNotice] : .cancel
    bench.enrol("b1", voip: "v1", alert: "a1", can: can)
    bench.attach("b1")
    bench.place()
    bench.pass(.seconds(2))
    #expect(bench.pushes("b1") == [.ring])
    if acknowledges { bench.acknowledgeAll() }
    bench.caller(.cancel)
    #expect(bench.pushes("b1") == (acknowledges ? [.ring] : [.ring, .cancel]))
    #expect(bench.stops("b1").map(\.reason) == [.cancelled])
  }

  @Test(
    "a push that surely failed rang nobody: no clean-up",
    arguments: [PushOutcome.rejected(reason: "BadTopic"), .failed(reason: "refused")],
    [true, false])
  func failedPush(outcome: PushOutcome, wasAccepted: Bool) {
    var bench = ringing(can: .cancel, outcome: wasAccepted ? .accepted : outcome)
    if wasAccepted { bench.report(outcome, "b1", token: "v1") }
    bench.caller(.cancel)
    #expect(bench.pushes.isEmpty)
  }

  @Test("an answered call that ends tells the losers nothing more") func onlyOnce() {
    var bench = ringing(can: [.answeredElsewhere, .missed, .cancel])
    end(.answered, &bench)
    bench.caller(.hangUp)
    #expect(bench.pushes("b1") == [.answeredElsewhere])
  }

  // MARK: R3, R4

  @Test("R3: cancelled before the pushed device attached: it never rings") func cancelledFirst() {
    var bench = ringing(can: [])
    bench.caller(.cancel)
    let back = Bench.session("b1", edge: 2)
    let state = bench.wake("b1", session: back)?.state
    #expect(state?.phase == .ended && state?.reason == .cancelled && state?.missed == true)
    #expect(bench.deliveries(to: back).count == 1)
    #expect(bench.stops(back).map(\.reason) == [.cancelled])
  }

  @Test("R4: the push comes after the end, while that is kept and later") func lateAttach() {
    for (seconds, phase) in [(31, CallPhase.ended), (590, .ended), (930, .unknown)] {
      var bench = ringing(can: [])
      bench.pass(.seconds(Int64(seconds)))
      let state = bench.wake("b1")?.state
      #expect(state?.phase == phase)
      #expect(state?.reason == (phase == .ended ? .unanswered : nil))
      #expect(bench.invites("b1").isEmpty)
      if phase == .unknown { #expect(bench.deliveries(to: "b1").isEmpty) }
    }
  }

  private static let answers: [(End?, EndReason?, CallPhase)] = [
    (nil, nil, .placed), (.answered, .answeredElsewhere, .ended), (.declined, .declined, .ended),
    (.cancelled, .cancelled, .ended), (.unanswered, .unanswered, .ended), (nil, nil, .unknown),
  ]

  @Test("R5: a woken device hears one of six", arguments: answers)
  func sixAnswers(how: End?, reason: EndReason?, phase: CallPhase) {
    var bench = ringing(can: [])
    if let how { end(how, &bench) }
    if phase == .unknown { bench.pass(.seconds(2000)) }
    let back = Bench.session("b1", edge: 2)
    let state = bench.wake("b1", session: back)?.state
    #expect(state?.phase == phase && state?.reason == reason)
    let invites = bench.deliveries(to: back).count { $0.event.kind == "invite" }
    #expect(invites == (phase == .placed ? 1 : 0))
  }

  // MARK: Missed calls

  /// b1 sleeps, b2 has a session, b3 has only an alert token, b4 takes no notices, b5 sleeps and
  /// takes "missed".
  func family() -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.enrol("b2", voip: "v2", alert: "a2")
    bench.enrol("b3", alert: "a3")
    bench.enrol("b4", voip: "v4", alert: "a4", can: [])
    bench.enrol("b5", voip: "v5", alert: "a5", can: [.missed, .missedNotice])
    bench.attach("b2")
    bench.place()
    bench.say(.alerting, "b2")
    for (device, token) in [("b1", "v1"), ("b4", "v4"), ("b5", "v5")] {
      bench.report(.accepted, device, token: token)
    }
    _ = bench.take()
    return bench
  }

  @Test(
    "one notice for each device that can show it and does not know",
    arguments: [End.cancelled, .unanswered])
  func notices(how: End) {
    var bench = family()
    end(how, &bench)
    #expect(bench.pushes("b1") == [.ended, .missedNotice])
    #expect(bench.pushes("b2").isEmpty, "its socket told it")
    #expect(bench.pushes("b3") == [.missedNotice], "never a leg")
    #expect(bench.pushes("b4").isEmpty)
    #expect(bench.pushes("b5") == [.missed], "that says it")
    for job in bench.pushes where job.purpose == .missedNotice {
      #expect(job.deadline == bench.now + .seconds(86_400))
      #expect(job.token.token.hasPrefix("a"))
    }
    #expect(bench.stops("b2").first?.missed == true)
    bench.pass(.seconds(700))
    #expect(bench.pushes.count == 4)
  }

  @Test(
    "answered or declined on any device, also on one alone, is not missed",
    arguments: [End.answered, .declined, .declinedHere])
  func notMissed(how: End) {
    var bench = family()
    end(how, &bench)
    #expect(bench.pushes.filter { $0.purpose == .missedNotice }.isEmpty)
    #expect(bench.ends.allSatisfy { !$0.missed })
    if how == .declinedHere {
      #expect(bench.ends.map(\.reason) == [.unanswered])
    } else {
      #expect(bench.pushes.filter { $0.purpose == .missed }.isEmpty)
    }
  }

  @Test("busy is missed, but the device that said so knows") func busy() {
    var bench = Bench()
    bench.enrol("b1", alert: "a1")
    bench.enrol("b2", alert: "a2")
    bench.attach("b2")
    bench.place()
    bench.say(.busy, "b2")
    #expect(bench.ends.map(\.reason) == [.busy])
    #expect(bench.pushes("b1") == [.missedNotice])
    #expect(bench.pushes("b2").isEmpty)
  }

  @Test("only alert tokens: nobody rings, everybody has a notice") func onlyNotices() {
    var bench = Bench()
    bench.enrol("b1", alert: "a1")
    #expect(bench.place()?.state?.reason == .unreachable)
    #expect(bench.pushes("b1") == [.missedNotice])
    #expect(bench.journalledPushes == ["b1 missedNotice"])
    let entries = bench.shard.inspect(call: Bench.callID)?.timeline ?? []
    let pushed = entries.first { $0.what == "push queued" }
    #expect(pushed?.device == "b1" && pushed?.purpose == .missedNotice)
  }

  @Test("who calls oneself and gives up missed nothing on that device") func toOneself() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.enrol("b2", alert: "a2")
    bench.attach("b1")
    _ = bench.take()
    bench.place(user: "bob", device: "b1")
    bench.say(.cancel, "b1")
    #expect(bench.pushes("b1").isEmpty)
    #expect(bench.pushes("b2") == [.missedNotice])
  }

  @Test func inspection() {
    var bench = family()
    bench.report(.rejected(reason: "BadTopic"), "b4", token: "v4")
    bench.report(.rejected(reason: "BadTopic"), "b4", token: "v4")
    bench.caller(.cancel)
    let call = bench.shard.inspect(call: Bench.callID)
    let b1 = call?.legs.first { $0.party.device == "b1" }
    #expect(b1?.pushes == [.ring, .ended, .missedNotice])
    let events = call?.timeline.filter { $0.purpose != nil } ?? []
    #expect(
      events.contains { $0.device == "b1" && $0.what == "push queued" && $0.purpose == .ring })
    #expect(events.contains { $0.device == "b1" && $0.what == "push accepted" })
    #expect(events.contains { $0.device == "b3" && $0.purpose == .missedNotice })
    let rejected = events.filter { $0.what == "push rejected" }
    #expect(rejected.count == 1, "a report retransmitted is one event")
    #expect(rejected.first?.reason == "BadTopic")
  }
}
