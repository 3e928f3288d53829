import CallCore
import Testing

/// The races of ringing, by number. Each test carries the number of the race that it settles.
@Suite struct RaceTests {
  @Test("R1: two devices answer within a millisecond") func r1TwoAnswers() {
    var bench = Bench.ringing("b1", "b2", "b3")
    #expect(bench.answer("b1", "sdp1")?.won == true)
    let second = bench.answer("b2", "sdp2")
    #expect(second?.won == false)
    #expect(second?.state?.reason == .answeredElsewhere)
    #expect(second?.state?.by?.device == "b1")
    #expect(bench.answers() == [Answered(by: .b1, description: "sdp1")])
    for device in ["b2", "b3"] {
      #expect(bench.stops(device) == [Stop(reason: .answeredElsewhere, by: .b1)])
    }
    #expect(bench.stops("b1").isEmpty)
    #expect(bench.journal.count { if case .answered = $0.change { true } else { false } } == 1)
  }

  @Test("R2: the answer before the cancel wins, and the caller is told") func r2AnswerThenCancel() {
    var bench = Bench.ringing("b1", "b2")
    #expect(bench.answer("b1")?.won == true)
    let reply = bench.caller(.cancel)
    #expect(reply?.state?.phase == .answered)
    #expect(reply?.state?.by?.device == "b1")
    #expect(bench.stops("b1").isEmpty)
    #expect(bench.ends.isEmpty)
  }

  @Test("R2: the cancel before the answer wins, and the device is told") func r2CancelThenAnswer() {
    var bench = Bench.ringing("b1", "b2")
    #expect(bench.caller(.cancel)?.state?.reason == .cancelled)
    let reply = bench.answer("b1")
    #expect(reply?.won == false)
    #expect(reply?.state?.reason == .cancelled)
    #expect(reply?.state?.by?.user == "alice")
    #expect(bench.answers().isEmpty && bench.stops("alice1").isEmpty)
    #expect(bench.stops("b1") == [Stop(reason: .cancelled, by: .alice1, missed: true)])
    #expect(bench.ends.map(\.unreachable) == [nil])
  }

  @Test("R2: the ring timeout before the answer wins") func r2TimeoutThenAnswer() {
    var bench = Bench.ringing("b1", seconds: 5)
    bench.acknowledgeAll()
    bench.pass(.seconds(5))
    let reply = bench.answer("b1")
    #expect(reply?.won == false)
    #expect(reply?.state?.reason == .unanswered)
    #expect(bench.stops("b1") == [Stop(reason: .unanswered, missed: true)])
    #expect(bench.stops("alice1") == [Stop(reason: .unanswered)])
    #expect(bench.answers().isEmpty)
  }

  @Test("R2: the answer at the last microsecond beats the timeout") func r2AnswerThenTimeout() {
    var bench = Bench.ringing("b1", seconds: 5)
    bench.pass(Span(microseconds: 4_999_999))
    #expect(bench.answer("b1")?.won == true)
    bench.pass(.seconds(2))
    #expect(bench.ends.isEmpty)
  }

  @Test("R5: a late attach hears one of six answers", arguments: 0..<6) func r5LateAttach(
    answer: Int
  ) {
    var bench = Bench()
    bench.attach("b1", "b2")
    if answer != 5 { bench.place(seconds: 5) }
    switch answer {
    case 1: bench.answer("b1")
    case 2: bench.say(.decline(.everywhere), "b1")
    case 3: bench.caller(.cancel)
    case 4: bench.pass(.seconds(5))
    default: break
    }
    _ = bench.take()
    let state = bench.wake("b3")?.state
    let reasons: [EndReason?] = [nil, .answeredElsewhere, .declined, .cancelled, .unanswered, nil]
    #expect(state?.reason == reasons[answer])
    #expect(state?.phase == (answer == 0 ? .placed : answer == 5 ? .unknown : .ended))
    if answer == 1 { #expect(state?.by?.device == "b1") }
    #expect(bench.invites("b3").count == (answer == 0 ? 1 : 0))
    if answer != 0 { #expect(bench.deliveries(to: "b3").isEmpty) }
  }

  @Test("R5: a device that joins late rings and can win") func r5LateWinner() {
    var bench = Bench.ringing("b1")
    bench.attach("b2")
    #expect(bench.invites("b2").first?.description == "offer")
    #expect(bench.answer("b2")?.won == true)
    #expect(bench.stops("b1").map(\.reason) == [.answeredElsewhere])
  }

  @Test("R6: the same device attaches again while it rings") func r6AttachAgain() {
    var bench = Bench.ringing("b1", "b2")
    _ = bench.take()
    let second = Bench.session("b1", 2)
    bench.attach("b1", session: second)
    let notices = bench.effects.compactMap {
      if case .close(Bench.session("b1"), let notice) = $0 { notice.kind } else { nil }
    }
    #expect(notices == [.sessionReplaced])
    #expect(bench.deliveries(to: second).count == 1)
    #expect(bench.deliveries(to: "b1").isEmpty)
    #expect(bench.shard.inspect(call: Bench.callID)?.legs.count == 2)
    // The old socket's close comes late and changes nothing.
    bench.close("b1")
    #expect(bench.answer("b1", session: second)?.won == true)
    _ = bench.take()
    // The same attach, sent again by an edge that got no reply, rings nobody twice.
    bench.attach("b1", session: second)
    #expect(bench.deliveries(to: second).isEmpty)
  }

  @Test("R6: the same device registers again while it rings") func r6RegisterAgain() {
    var bench = Bench.ringing("b1")
    _ = bench.take()
    for token: UInt64 in 1...2 {
      bench.say(.register(RegistrationRequest(deviceName: "x")), device: "b1")
      bench.run { $0.registrationStored(token: token, ok: true, now: $1, into: &$2) }
    }
    #expect(bench.invites("b1").isEmpty)
    #expect(bench.shard.inspect(call: Bench.callID)?.legs.count == 1)
    #expect(bench.shard.counts.registrations == 1)
  }

  @Test("R7: late decline and busy of a device that lost", arguments: [false, true])
  func r7LateDecline(busy: Bool) {
    var bench = Bench.answered("b1", "b2")
    _ = bench.take()
    let reply = bench.say(busy ? .busy : .decline(.everywhere), "b2")
    #expect(reply?.state?.reason == .answeredElsewhere)
    #expect(bench.ends.isEmpty)
    #expect(bench.shard.counts.answered == 1)
    #expect(bench.effects.count == 1, "only the reply")
  }

  @Test("R9: a repeated command has the same answer and no second effect") func r9Repeats() {
    var bench = Bench()
    bench.attach("b1", "b2", "b3")
    let place = Command.Body.place(PlaceRequest(call: Bench.callID, description: "o"))
    let answer = CallVerb.answer(description: "a")
    let verbs: [(CallVerb, String)] = [
      (.alerting, "b1"), (.decline(.here), "b3"), (answer, "b1"), (answer, "b2"),
      (.connected, "b1"), (.connected, "alice1"), (.hangUp, "alice1"), (.cancel, "alice1"),
    ]
    var commands: [(Command.Body, String)] = [(place, "alice1")]
    for (verb, device) in verbs { commands.append((.call(Bench.callID, verb), device)) }
    for (body, device) in commands {
      let user = device == "alice1" ? "alice" : "bob"
      let first = bench.say(body, user: user, device: device)
      let entries = bench.journal.count
      _ = bench.take()
      let second = bench.say(body, user: user, device: device)
      if body != .call(Bench.callID, .connected) {
        #expect(first?.state?.phase == second?.state?.phase, "\(body)")
        #expect(first?.state?.reason == second?.state?.reason)
        #expect(first?.won == second?.won)
      }
      #expect(second?.error == nil)
      #expect(bench.journal.count == entries, "\(body) left a second record")
      #expect(bench.effects.count == 1, "\(body) told somebody twice: \(bench.effects)")
    }
  }

  @Test("R9: the same call id with other content is refused") func r9OtherContent() {
    var bench = Bench.ringing("b1")
    #expect(bench.place(description: "another offer")?.error == .callIDTaken)
    #expect(bench.place(user: "carol", device: "c1")?.error == .callIDTaken)
    #expect(bench.place()?.state?.phase == .placed)
  }

  @Test("R9, R17: a candidate that is retransmitted is handed over once") func r9Candidates() {
    var bench = Bench.ringing("b1")
    let early = Command.Body.call(Bench.callID, .signal(.candidate, body: "c1"))
    for again in [false, true] {
      #expect(bench.say(early, user: "alice", device: "alice1", again: again) == .done)
    }
    #expect(bench.signals("b1").map(\.body) == ["c1"])
    for again in [false, true] { bench.say(.signal(.candidate, body: "x1"), "b1", again: again) }
    bench.answer("b1")
    #expect(bench.answers().first?.signals.map(\.body) == ["x1"])
    for again in [false, true] { bench.say(.signal(.candidate, body: ""), "b1", again: again) }
    // Meant, though it is the same text: an end of candidates after another.
    bench.say(.signal(.candidate, body: ""), "b1")
    #expect(bench.signals("alice1").map(\.body) == ["", ""])
  }

  // MARK: From the answer to the end, and calls that reach no device

  @Test("R15: answered, never connected", arguments: [0, 1]) func r15NeverConnected(reports: Int) {
    var bench = Bench.answered("b1")
    if reports == 1 { bench.caller(.connected) }
    bench.pass(.seconds(15))
    for device in ["alice1", "b1"] { #expect(bench.stops(device).map(\.reason) == [.failed]) }
    #expect(bench.ends.count == 1)
  }

  @Test("R15: connected on both sides goes on") func r15Connected() {
    var bench = Bench.answered("b1")
    #expect(bench.caller(.connected) == .done)
    #expect(bench.say(.connected, "b1") == .done)
    bench.acknowledgeAll()
    bench.pass(.seconds(3600))
    #expect(bench.ends.isEmpty)
  }

  @Test("R16: hang-up, timeout and loss at the same moment make one end", arguments: 0..<6)
  func r16OneEnd(order: Int) {
    var bench = Bench.answered("b1", "b2")
    bench.caller(.callerGone([Bench.callID]))
    bench.now = bench.now + .seconds(15)
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    for step in orders[order] {
      switch step {
      case 0: bench.say(.hangUp, "b1")
      case 1: bench.pass(Span(microseconds: 0))
      default: bench.close("b1")
      }
    }
    bench.pass(.seconds(120))
    #expect(bench.ends.count == 1)
    #expect(bench.shard.counts.answered == 0)
    #expect(bench.stops("b1").count <= 1 + CallLimits().deliveryRepeats.count)
    #expect(Set(bench.stops("b1").map(\.reason)).count <= 1)
  }

  @Test("R17: early candidates reach the winner's side in order; those of losers are dropped")
  func r17Candidates() {
    var bench = Bench.ringing("b1")
    bench.caller(.signal(.candidate, body: "c1"))
    bench.caller(.signal(.candidate, body: "c2"))
    bench.attach("b2")
    #expect(bench.invites("b2").first?.signals.map(\.body) == ["c1", "c2"])
    #expect(bench.signals("b1").map(\.body) == ["c1", "c2"])
    bench.say(.signal(.candidate, body: "x1"), "b1")
    bench.say(.signal(.candidate, body: "y1"), "b2")
    bench.say(.signal(.candidate, body: "y2"), "b2")
    #expect(bench.signals("alice1").isEmpty, "kept until somebody answers")
    bench.answer("b2", "sdp")
    #expect(bench.answers().first?.signals.map(\.body) == ["y1", "y2"])
    #expect(bench.say(.signal(.candidate, body: "x2"), "b1") == .done)
    bench.say(.signal(.candidate, body: "y3"), "b2")
    bench.caller(.signal(.description, body: "offer2"))
    #expect(bench.signals("alice1").map(\.body) == ["y3"])
    #expect(bench.signals("alice1").map(\.index) == [3])
    #expect(bench.signals("b2").last?.body == "offer2")
    #expect(bench.signals("b1").map(\.body) == ["c1", "c2"])
    bench.caller(.hangUp)
    _ = bench.take()
    #expect(bench.caller(.signal(.candidate, body: "late")) == .done)
    #expect(bench.effects.count == 1)
  }

  @Test("R18: what a device says of time is never trusted") func r18Clocks() {
    var bench = Bench()
    // A session announced by an edge whose clock is a day ahead does not move any deadline.
    bench.say(.attach(Attach(attachedAt: bench.now + .seconds(86_400))), device: "b1")
    bench.place(seconds: 5)
    let deadline = bench.invites("b1").first?.deadline
    #expect(deadline == bench.now + .seconds(5))
    bench.pass(Span(microseconds: 4_999_999))
    #expect(bench.ends.isEmpty)
    bench.pass(Span(microseconds: 1))
    #expect(bench.ends.map(\.reason) == [.unanswered])
    #expect(bench.ends.first?.at == deadline)
  }

  @Test("R19: no device: unreachable at once") func r19NoDevice() {
    var bench = Bench()
    let state = bench.place()?.state
    #expect(state?.phase == .ended && state?.reason == .unreachable)
    #expect(state?.unreachable == .noDevice)
    #expect(bench.stops("alice1") == [Stop(reason: .unreachable, unreachable: .noDevice)])
    #expect(bench.ends.count == 1)
  }

  @Test("R19: every device leaves: unreachable at once, and the caller hears why")
  func r19AllLeave() {
    var bench = Bench.ringing("b1", "b2")
    bench.close("b1", graceful: true)
    #expect(bench.ends.isEmpty)
    bench.close("b2", graceful: true)
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(bench.stops("alice1").map(\.unreachable) == [.lost])
    var next = bench.takenOver().begun()
    #expect(next.caller(.query)?.state?.unreachable == .lost)
    let back = Bench.session("b1", 1)
    bench.attach("b1", session: back)
    #expect(bench.stops(back).map(\.unreachable) == [nil], "a callee is not told")
  }

  @Test("R19: the user's device is registered, and no push makes it ring") func r19NotWakeable() {
    var bench = Bench()
    bench.attach("b1")
    bench.enrol("b1")
    bench.close("b1", graceful: true)
    #expect(bench.place()?.state?.unreachable == .notWakeable)
  }

  // MARK: An owner, an edge or a session is lost

  /// The owner was held up: the deadline has passed, and is not looked at yet.
  @Test("R2, R10: a device that attaches after the deadline does not ring")
  func attachedAfterTheDeadline() {
    var bench = Bench.ringing("b1", seconds: 5)
    bench.now = bench.now + .seconds(6)
    _ = bench.take()
    bench.attach("b2", edge: 2)
    let again = Bench.session("b1", 1)
    bench.attach("b1", session: again)
    #expect(bench.invites("b1").isEmpty)
    bench.run { $0.fire(now: $1, into: &$2) }
    #expect(bench.ends.map(\.reason) == [.unanswered])
    for session in [Bench.session("b2", edge: 2), again] {
      let stop = Delivery.Event.stop(Stop(reason: .unanswered, missed: true))
      #expect(bench.deliveries(to: session).map(\.event) == [stop])
    }
  }

  @Test("R10: the owner dies while it rings; the deadline passes meanwhile") func r10TakeOver() {
    var bench = Bench.ringing("b1", "b2", seconds: 5)
    bench.now = bench.now + .seconds(6)
    var next = bench.takenOver()
    next.announce("b1")
    #expect(next.effects.isEmpty, "nobody is told anything before the shard serves")
    next.begin()
    next.pass(Span(microseconds: 0))
    #expect(next.stops("b1").map(\.reason) == [.unanswered])
    #expect(next.ends.map(\.reason) == [.unanswered])
  }

  @Test("R11: an edge dies; its devices attach elsewhere and hear the present state")
  func r11EdgeLost() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.attach("b3", edge: 2)
    bench.place()
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    _ = bench.take()
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: "b1", edge: 2).count == 1)
    #expect(bench.answer("b3")?.won == true)
    #expect(bench.stops(Bench.session("b1", edge: 2)).map(\.reason) == [.answeredElsewhere])
    // b2 comes back only now: it rang, so it hears how it ended.
    bench.attach("b2", edge: 2)
    #expect(bench.deliveries(to: "b2", edge: 2).count == 1)
    #expect(bench.stops(Bench.session("b2", edge: 2)).map(\.reason) == [.answeredElsewhere])
  }

  @Test("R11: the caller's edge dies; its device comes back within the grace")
  func r11CallerEdgeLost() {
    var bench = Bench()
    bench.attach("b1", edge: 2)
    bench.place()
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    bench.answer("b1", "sdp")
    let back = Bench.session("alice1", 2, edge: 2)
    #expect(bench.caller(.resume, session: back)?.state?.phase == .answered)
    let answers = bench.deliveries(to: back).compactMap {
      if case .answered(let answered) = $0.event { answered.description } else { nil }
    }
    #expect(answers == ["sdp"])
  }

  @Test("R11: a winner's app that began anew hears that it has the call before anything else of it")
  func r11WinnerBeginsAnew() {
    var bench = Bench.answered("b1")
    bench.close("b1")
    bench.caller(.signal(.candidate, body: "c1"))
    let session = Bench.session("b1", 2)
    bench.attach("b1", session: session)
    #expect(bench.deliveries(to: session).map(\.event.kind) == ["answered", "signal"])
  }

  @Test("R11: a device that left in mid-ring hears what became of the call when it is back")
  func r11LeftInMidRing() {
    var bench = Bench.ringing("b1", "b2")
    bench.close("b1", graceful: true)
    bench.caller(.cancel)
    bench.acknowledgeAll()
    let session = Bench.session("b1", 2)
    bench.attach("b1", session: session)
    #expect(bench.stops(session).map(\.reason) == [.cancelled])
  }

  @Test("R22: the caller's session breaks and comes back: nobody notices") func r22CallerBack() {
    var bench = Bench.ringing("b1")
    bench.acknowledgeAll()
    _ = bench.take()
    bench.caller(.callerGone([Bench.callID]))
    bench.pass(.seconds(14))
    let back = Bench.session("alice1", 2)
    #expect(bench.caller(.resume, session: back)?.state?.phase == .placed)
    bench.pass(.seconds(10))
    #expect(bench.deliveries(to: "b1").isEmpty)
    #expect(bench.ends.isEmpty)
    bench.answer("b1")
    #expect(bench.deliveries(to: back).count == 1)
  }

  @Test("R22: the caller stays away: cancelled after the grace") func r22CallerStaysAway() {
    var bench = Bench.ringing("b1")
    bench.caller(.callerGone([Bench.callID]))
    bench.pass(.seconds(15))
    #expect(bench.stops("b1").map(\.reason).first == .cancelled)
    #expect(bench.ends.map(\.reason) == [.cancelled])
  }
}
