import CallCore
import Testing

/// What is pushed when a call is over.
@Suite struct PushCleanUpTests {
  /// b1 sleeps and takes what is given; b2 has a session and no token.
  private func ringing(
    can: PushCapabilities, alert: String? = nil, dialect: String = ""
  ) -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: alert, dialect: dialect, can: can)
    bench.attach("b2")
    bench.place()
    bench.report(.accepted, "b1", token: "v1")
    _ = bench.take()
    return bench
  }

  enum End: String, CaseIterable, Sendable {
    case answered, declined, cancelled, unanswered, busy
  }

  private func end(_ end: End, _ bench: inout Bench) {
    switch end {
    case .answered: bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")
    case .declined: bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b2")
    case .cancelled: bench.caller(.call(Bench.callID, .cancel))
    case .unanswered: bench.pass(.seconds(30))
    case .busy:
      bench.say(.call(Bench.callID, .busy), device: "b2")
      bench.say(.sessionClosed(graceful: false), device: "b2")
      bench.caller(.call(Bench.callID, .cancel))
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
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes.map(\.isRingUnknown) == [false, report == nil])
  }

  @Test("who said what is in the job") func tellsWho() {
    var bench = ringing(can: [.answeredElsewhere])
    end(.answered, &bench)
    #expect(bench.pushes.first?.reason == .answeredElsewhere)
    #expect(bench.pushes.first?.by?.device == "b2")
    var declined = ringing(can: [.cancel])
    end(.declined, &declined)
    #expect(declined.pushes.first?.reason == .declined)
    #expect(declined.pushes.first?.by?.device == "b2")
    var cancelled = ringing(can: [.cancel])
    end(.cancelled, &cancelled)
    #expect(cancelled.pushes.first?.by?.user == "alice")
  }

  @Test("Twilio 4.x: cancel push; 2.1 and 6.x: none", arguments: ["4.0.0", "2.1.0", "6.9.0"])
  func twilio(version: String) {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", dialect: "twilio", sdk: ("TwilioVoice", version))
    bench.place()
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes("b1") == (version == "4.0.0" ? [.ring, .cancel] : [.ring]))
    #expect(bench.pushes.first?.dialect == .twilio)
  }

  @Test("never to the device that answered, declined or was busy", arguments: [0, 1, 2, 3])
  func notToWhoCausedIt(how: Int) {
    var bench = ringing(can: [.missed, .answeredElsewhere, .cancel, .ended], alert: "a1")
    switch how {
    case 0:
      bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
      bench.say(.call(Bench.callID, .hangUp), device: "b1")
    case 1: bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b1")
    case 2:
      bench.say(.call(Bench.callID, .decline(.here)), device: "b1")
      bench.caller(.call(Bench.callID, .cancel))
    default:
      bench.say(.call(Bench.callID, .busy), device: "b1")
      bench.caller(.call(Bench.callID, .cancel))
    }
    #expect(bench.pushes.isEmpty)
  }

  @Test("a device that attached since hears it over its socket") func attachedSince() {
    var bench = ringing(can: [.missed, .cancel])
    bench.attach("b1", edge: 2)
    bench.say(
      .sessionClosed(graceful: false), device: "b1", session: Bench.session("b1", edge: 2))
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes.isEmpty)
    bench.attach("b1", edge: 3)
    let stops = bench.deliveries(to: Bench.session("b1", edge: 3))
    #expect(stops.count == 1)
  }

  @Test("a silent socket is no attach: the device is told both ways") func silentSocket() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: .cancel)
    bench.attach("b1")
    bench.place()
    bench.pass(.seconds(2))
    #expect(bench.pushes("b1") == [.ring])
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes("b1") == [.ring, .cancel])
    #expect(bench.stops("b1").map(\.reason) == [.cancelled])
  }

  @Test("a push that failed rang nobody: no clean-up") func failedPush() {
    var bench = ringing(can: .cancel)
    bench.report(.rejected(reason: "BadTopic"), "b1", token: "v1")
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.pushes.isEmpty)
  }

  @Test("an answered call that ends tells the losers nothing more") func onlyOnce() {
    var bench = ringing(can: [.answeredElsewhere, .missed, .cancel])
    end(.answered, &bench)
    bench.caller(.call(Bench.callID, .hangUp))
    #expect(bench.pushes("b1") == [.answeredElsewhere])
  }

  // MARK: R3, R4

  @Test("R3: cancelled before the pushed device attached: it hears that, and never rings")
  func cancelledFirst() {
    var bench = ringing(can: [])
    bench.caller(.call(Bench.callID, .cancel))
    let back = Bench.session("b1", edge: 2)
    let reply = bench.say(
      .attach(Attach(forCall: Bench.callID)), device: "b1", session: back)
    #expect(reply?.state?.phase == .ended)
    #expect(reply?.state?.reason == .cancelled)
    #expect(reply?.state?.missed == true)
    let told = bench.deliveries(to: back)
    #expect(told.count == 1)
    if case .stop(let stop) = told.first?.event {
      #expect(stop.reason == .cancelled)
    } else {
      Issue.record("not a stop")
    }
  }

  @Test("R4: the push comes after the end, within the time that it is kept, and later")
  func lateAttach() {
    for (device, wait, reason) in [
      ("b1", Span.seconds(1), EndReason.unanswered), ("b1", .seconds(560), .unanswered),
    ] {
      var bench = ringing(can: [])
      bench.pass(.seconds(30))
      bench.pass(wait)
      let reply = bench.say(.attach(Attach(forCall: Bench.callID)), device: device)
      #expect(reply?.state?.reason == reason)
      #expect(bench.invites(device).isEmpty)
    }
    var bench = ringing(can: [])
    bench.pass(.seconds(930))
    let reply = bench.say(.attach(Attach(forCall: Bench.callID)), device: "b1")
    #expect(reply?.state?.phase == .unknown)
    #expect(bench.deliveries(to: "b1").isEmpty)
  }

  @Test("R5: a woken device hears one of six", arguments: 0..<6) func sixAnswers(which: Int) {
    var bench = ringing(can: [])
    var expected: EndReason?
    switch which {
    case 0: break
    case 1:
      bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")
      expected = .answeredElsewhere
    case 2:
      bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b2")
      expected = .declined
    case 3:
      bench.caller(.call(Bench.callID, .cancel))
      expected = .cancelled
    case 4:
      bench.pass(.seconds(30))
      expected = .unanswered
    default: bench.pass(.seconds(2000))
    }
    let back = Bench.session("b1", edge: 2)
    let reply = bench.say(.attach(Attach(forCall: Bench.callID)), device: "b1", session: back)
    #expect(reply?.state?.reason == expected)
    let phase: CallPhase = which == 0 ? .placed : which == 5 ? .unknown : .ended
    #expect(reply?.state?.phase == phase)
    let invites = bench.deliveries(to: back).filter {
      if case .invite = $0.event { true } else { false }
    }
    #expect(invites.count == (which == 0 ? 1 : 0))
  }

  // MARK: Missed calls

  /// b1 sleeps, b2 has a session, b3 has only an alert token, b4 takes no notices, b5 sleeps and
  /// takes "missed".
  private func family() -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.enrol("b2", voip: "v2", alert: "a2")
    bench.enrol("b3", alert: "a3")
    bench.enrol("b4", voip: "v4", alert: "a4", can: [])
    bench.enrol("b5", voip: "v5", alert: "a5", can: [.missed, .missedNotice])
    bench.attach("b2")
    bench.place()
    bench.say(.call(Bench.callID, .alerting), device: "b2")
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

  @Test("answered or declined on any device is not missed", arguments: [End.answered, .declined])
  func notMissed(how: End) {
    var bench = family()
    end(how, &bench)
    #expect(bench.pushes.filter { $0.purpose == .missedNotice || $0.purpose == .missed }.isEmpty)
    #expect(bench.ends.allSatisfy { !$0.missed })
  }

  @Test("declined on one device, unanswered on the others: not missed") func declinedHere() {
    var bench = family()
    bench.say(.call(Bench.callID, .decline(.here)), device: "b2")
    bench.pass(.seconds(30))
    #expect(bench.ends.map(\.reason) == [.unanswered])
    #expect(bench.ends.first?.missed == false)
    #expect(bench.pushes.filter { $0.purpose == .missedNotice }.isEmpty)
  }

  @Test("busy is missed, but the device that said so knows") func busy() {
    var bench = Bench()
    bench.enrol("b1", alert: "a1")
    bench.enrol("b2", alert: "a2")
    bench.attach("b2")
    bench.place()
    bench.say(.call(Bench.callID, .busy), device: "b2")
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
    #expect(pushed?.device == "b1")
    #expect(pushed?.purpose == .missedNotice)
  }

  @Test("who calls oneself and gives up missed nothing on that device") func toOneself() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.enrol("b2", alert: "a2")
    bench.attach("b1")
    _ = bench.take()
    bench.place(user: "bob", device: "b1")
    bench.say(.call(Bench.callID, .cancel), device: "b1")
    #expect(bench.pushes("b1").isEmpty)
    #expect(bench.pushes("b2") == [.missedNotice])
  }

  // MARK: What operators see

  @Test func inspection() {
    var bench = family()
    bench.report(.rejected(reason: "BadTopic"), "b4", token: "v4")
    bench.report(.rejected(reason: "BadTopic"), "b4", token: "v4")
    bench.caller(.call(Bench.callID, .cancel))
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
