import CallCore
import Testing

/// Pushes that are sent when a call is over.
@Suite struct PushCleanUpTests {
  /// b1 sleeps and takes what is given; b2 has a session and no token.
  func ringing(
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

  func end(_ end: End, _ bench: inout Bench) {
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
}
