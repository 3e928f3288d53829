import CallCore
import Testing

/// The races of ringing, by number. Each test carries the number of the race that it settles.
@Suite struct RaceTests {
  @Test("R1: two devices answer within a millisecond")
  func r1TwoAnswers() {
    var bench = Bench()
    bench.attach("b1", "b2", "b3")
    bench.place()
    let first = bench.say(.call(Bench.callID, .answer(description: "sdp1")), device: "b1")
    let second = bench.say(.call(Bench.callID, .answer(description: "sdp2")), device: "b2")
    #expect(first?.won == true)
    #expect(second?.won == false)
    #expect(second?.state?.reason == .answeredElsewhere)
    #expect(second?.state?.by?.device == "b1")
    #expect(bench.answers().map(\.by.device) == ["b1"])
    #expect(bench.answers().first?.description == "sdp1")
    #expect(bench.stops("b2").map(\.reason) == [.answeredElsewhere])
    #expect(bench.stops("b2").first?.by?.deviceName == "Bob's b1")
    #expect(bench.stops("b3").map(\.reason) == [.answeredElsewhere])
    #expect(bench.stops("b1").isEmpty)
    #expect(
      bench.journal.filter { if case .answered = $0.change { true } else { false } }.count == 1)
  }

  @Test("R2: the answer before the cancel wins, and the caller is told")
  func r2AnswerThenCancel() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    #expect(bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")?.won == true)
    let reply = bench.caller(.call(Bench.callID, .cancel))
    #expect(reply?.state?.phase == .answered)
    #expect(reply?.state?.by?.device == "b1")
    #expect(bench.stops("b1").isEmpty)
    #expect(bench.ends.isEmpty)
  }

  @Test("R2: the cancel before the answer wins, and the device is told")
  func r2CancelThenAnswer() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    #expect(bench.caller(.call(Bench.callID, .cancel))?.state?.reason == .cancelled)
    let reply = bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    #expect(reply?.won == false)
    #expect(reply?.state?.reason == .cancelled)
    #expect(reply?.state?.by?.user == "alice")
    #expect(bench.answers().isEmpty)
    #expect(bench.stops("b1").map(\.reason) == [.cancelled])
    #expect(bench.stops("b1").first?.missed == true)
  }

  @Test("R2: the ring timeout before the answer wins")
  func r2TimeoutThenAnswer() {
    var bench = Bench()
    bench.attach("b1")
    bench.place(seconds: 5)
    bench.pass(.seconds(5))
    let reply = bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    #expect(reply?.won == false)
    #expect(reply?.state?.reason == .unanswered)
    #expect(bench.stops("alice1").map(\.reason) == [.unanswered])
    #expect(bench.answers().isEmpty)
  }

  @Test("R2: the answer at the last microsecond beats the timeout")
  func r2AnswerThenTimeout() {
    var bench = Bench()
    bench.attach("b1")
    bench.place(seconds: 5)
    bench.pass(Span(microseconds: 4_999_999))
    #expect(bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")?.won == true)
    bench.pass(.seconds(2))
    #expect(bench.ends.isEmpty)
  }

  @Test("R5: a late attach hears one of six answers", arguments: 0..<6)
  func r5LateAttach(answer: Int) {
    var bench = Bench()
    bench.attach("b1", "b2")
    if answer != 5 { bench.place(seconds: 5) }
    switch answer {
    case 1: bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    case 2: bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b1")
    case 3: bench.caller(.call(Bench.callID, .cancel))
    case 4: bench.pass(.seconds(5))
    default: break
    }
    _ = bench.take()
    let reply = bench.say(.attach(Attach(forCall: Bench.callID)), device: "b3")
    let state = reply?.state
    switch answer {
    case 0:
      #expect(state?.phase == .placed)
      #expect(bench.invites("b3").count == 1)
    case 1:
      #expect(state?.reason == .answeredElsewhere)
      #expect(state?.by?.device == "b1")
    case 2: #expect(state?.reason == .declined)
    case 3: #expect(state?.reason == .cancelled)
    case 4: #expect(state?.reason == .unanswered)
    default: #expect(state?.phase == .unknown)
    }
    if answer != 0 { #expect(bench.deliveries(to: "b3").isEmpty) }
  }

  @Test("R5: a device that joins late rings and can win")
  func r5LateWinner() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.attach("b2")
    #expect(bench.invites("b2").first?.description == "offer")
    #expect(bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")?.won == true)
    #expect(bench.stops("b1").map(\.reason) == [.answeredElsewhere])
  }

  @Test("R6: the same device attaches again while it rings")
  func r6AttachAgain() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    _ = bench.take()
    let second = Bench.session("b1", 2)
    bench.say(.attach(Attach()), device: "b1", session: second)
    #expect(
      bench.effects.contains {
        if case .close(Bench.session("b1"), let notice) = $0 {
          notice.kind == .sessionReplaced
        } else {
          false
        }
      })
    #expect(bench.deliveries(to: second).count == 1)
    #expect(bench.deliveries(to: "b1").isEmpty)
    #expect(bench.shard.inspect(call: Bench.callID)?.legs.count == 2)
    // The old socket's close comes late and changes nothing.
    bench.say(.sessionClosed(graceful: false), device: "b1")
    #expect(
      bench.say(.call(Bench.callID, .answer(description: "")), device: "b1", session: second)?.won
        == true)
    _ = bench.take()
    // The same attach, sent again by an edge that got no reply, rings nobody twice.
    bench.say(.attach(Attach()), device: "b1", session: second)
    #expect(bench.deliveries(to: second).isEmpty)
  }

  @Test("R6: the same device registers again while it rings")
  func r6RegisterAgain() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    _ = bench.take()
    bench.say(.register(RegistrationRequest(deviceName: "x")), device: "b1")
    bench.run { $0.registrationStored(token: 1, ok: true, now: $1, into: &$2) }
    bench.say(.register(RegistrationRequest(deviceName: "x")), device: "b1")
    bench.run { $0.registrationStored(token: 2, ok: true, now: $1, into: &$2) }
    #expect(bench.invites("b1").isEmpty)
    #expect(bench.shard.inspect(call: Bench.callID)?.legs.count == 1)
    #expect(bench.shard.counts.registrations == 1)
  }

  @Test("R7: late decline and busy of a device that lost", arguments: [false, true])
  func r7LateDecline(busy: Bool) {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    _ = bench.take()
    let reply = bench.say(
      busy ? .call(Bench.callID, .busy) : .call(Bench.callID, .decline(.everywhere)), device: "b2")
    #expect(reply?.state?.reason == .answeredElsewhere)
    #expect(bench.ends.isEmpty)
    #expect(bench.shard.counts.answered == 1)
    #expect(bench.effects.count == 1, "only the reply")
  }

  @Test("R9: a repeated command has the same answer and no second effect")
  func r9Repeats() {
    var bench = Bench()
    bench.attach("b1", "b2", "b3")
    let commands: [(Command.Body, String)] = [
      (.place(PlaceRequest(call: Bench.callID, description: "o")), "alice1"),
      (.call(Bench.callID, .alerting), "b1"),
      (.call(Bench.callID, .decline(.here)), "b3"),
      (.call(Bench.callID, .answer(description: "a")), "b1"),
      (.call(Bench.callID, .answer(description: "a")), "b2"),
      (.call(Bench.callID, .connected), "b1"),
      (.call(Bench.callID, .connected), "alice1"),
      (.call(Bench.callID, .hangUp), "alice1"),
      (.call(Bench.callID, .cancel), "alice1"),
    ]
    for (body, device) in commands {
      let user = device == "alice1" ? "alice" : "bob"
      let first = bench.say(body, user: user, device: device)
      let entries = bench.journal.count
      _ = bench.take()
      let second = bench.say(body, user: user, device: device)
      if case .call(_, .connected) = body {
      } else {
        #expect(first?.state?.phase == second?.state?.phase, "\(body)")
        #expect(first?.state?.reason == second?.state?.reason)
        #expect(first?.won == second?.won)
      }
      #expect(second?.error == nil)
      #expect(bench.journal.count == entries, "\(body) left a second record")
      #expect(bench.effects.count == 1, "\(body) told somebody twice: \(bench.effects)")
    }
  }

  @Test("R9: the same call id with other content is refused")
  func r9OtherContent() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    #expect(bench.place(description: "another offer")?.error == .callIDTaken)
    #expect(bench.place(user: "carol", device: "c1")?.error == .callIDTaken)
    #expect(bench.place()?.state?.phase == .placed)
  }

  /// The owner was held up: the deadline has passed, and is not looked at yet.
  @Test("R2, R10: a device that attaches after the deadline does not ring")
  func attachedAfterTheDeadline() {
    var bench = Bench()
    bench.attach("b1")
    bench.place(seconds: 5)
    bench.now = bench.now + .seconds(6)
    _ = bench.take()
    bench.attach("b2", edge: 2)
    let again = Bench.session("b1", 1)
    bench.say(.attach(Attach()), device: "b1", session: again)
    #expect(bench.invites("b1").isEmpty)
    bench.run { $0.fire(now: $1, into: &$2) }
    #expect(bench.ends.map(\.reason) == [.unanswered])
    for session in [Bench.session("b2", edge: 2), again] {
      let heard = bench.deliveries(to: session).map(\.event)
      #expect(heard.count == 1 && heard.first == .stop(Stop(reason: .unanswered, missed: true)))
    }
  }

  @Test("R10: the owner dies while it rings; the deadline passes meanwhile")
  func r10TakeOver() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place(seconds: 5)
    bench.now = bench.now + .seconds(6)
    var next = bench.takenOver()
    next.say(.attach(Attach(announce: true)), device: "b1")
    #expect(next.effects.isEmpty, "nobody is told anything before the shard serves")
    next.run { $0.begin(now: $1, into: &$2) }
    next.pass(Span(microseconds: 0))
    #expect(next.stops("b1").map(\.reason) == [.unanswered])
    #expect(next.ends.map(\.reason) == [.unanswered])
    #expect(next.journal.filter { if case .ended = $0.change { true } else { false } }.count == 1)
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
    let moved = Bench.session("b1", edge: 2)
    #expect(bench.deliveries(to: moved).count == 1)
    #expect(bench.say(.call(Bench.callID, .answer(description: "")), device: "b3")?.won == true)
    #expect(
      bench.deliveries(to: moved).contains {
        if case .stop(let stop) = $0.event { stop.reason == .answeredElsewhere } else { false }
      })
    // b2 comes back only now: it rang, so it hears how it ended.
    bench.attach("b2", edge: 2)
    let late = bench.deliveries(to: Bench.session("b2", edge: 2))
    #expect(late.count == 1)
    #expect(
      late.allSatisfy {
        if case .stop(let stop) = $0.event { stop.reason == .answeredElsewhere } else { false }
      })
  }

  @Test("R11: the caller's edge dies; its device comes back within the grace")
  func r11CallerEdgeLost() {
    var bench = Bench()
    bench.attach("b1", edge: 2)
    bench.place()
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    let back = Bench.session("alice1", 2, edge: 2)
    let reply = bench.caller(.call(Bench.callID, .resume), session: back)
    #expect(reply?.state?.phase == .answered)
    #expect(
      bench.deliveries(to: back).contains {
        if case .answered(let answered) = $0.event { answered.description == "sdp" } else { false }
      })
  }

  @Test("R15: answered, never connected", arguments: [0, 1])
  func r15NeverConnected(reports: Int) {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    if reports == 1 { bench.caller(.call(Bench.callID, .connected)) }
    bench.pass(.seconds(15))
    #expect(bench.stops("alice1").map(\.reason) == [.failed])
    #expect(bench.stops("b1").map(\.reason) == [.failed])
    #expect(bench.ends.count == 1)
  }

  @Test("R15: connected on both sides goes on")
  func r15Connected() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    #expect(bench.caller(.call(Bench.callID, .connected)) == .done)
    #expect(bench.say(.call(Bench.callID, .connected), device: "b1") == .done)
    bench.acknowledgeAll()
    bench.pass(.seconds(3600))
    #expect(bench.ends.isEmpty)
  }

  @Test("R16: hang-up, timeout and loss at the same moment make one end", arguments: 0..<6)
  func r16OneEnd(order: Int) {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.caller(.callerGone([Bench.callID]))
    bench.now = bench.now + .seconds(15)
    let steps: [(inout Bench) -> Void] = [
      { $0.say(.call(Bench.callID, .hangUp), device: "b1") },
      { $0.pass(Span(microseconds: 0)) },
      { $0.say(.sessionClosed(graceful: false), device: "b1") },
    ]
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    for step in orders[order] { steps[step](&bench) }
    bench.pass(.seconds(120))
    #expect(bench.ends.count == 1)
    #expect(bench.shard.counts.answered == 0)
    #expect(bench.stops("b1").count <= 1 + CallLimits().deliveryRepeats.count)
    #expect(Set(bench.stops("b1").map(\.reason)).count <= 1)
  }

  @Test("R17: early candidates reach the winner's side in order; those of losers are dropped")
  func r17Candidates() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c1")))
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c2")))
    bench.attach("b2")
    #expect(bench.invites("b2").first?.signals.map(\.body) == ["c1", "c2"])
    #expect(bench.signals("b1").map(\.body) == ["c1", "c2"])
    bench.say(.call(Bench.callID, .signal(.candidate, body: "x1")), device: "b1")
    bench.say(.call(Bench.callID, .signal(.candidate, body: "y1")), device: "b2")
    bench.say(.call(Bench.callID, .signal(.candidate, body: "y2")), device: "b2")
    #expect(bench.signals("alice1").isEmpty, "kept until somebody answers")
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b2")
    #expect(bench.answers().first?.signals.map(\.body) == ["y1", "y2"])
    #expect(bench.say(.call(Bench.callID, .signal(.candidate, body: "x2")), device: "b1") == .done)
    bench.say(.call(Bench.callID, .signal(.candidate, body: "y3")), device: "b2")
    bench.caller(.call(Bench.callID, .signal(.description, body: "offer2")))
    #expect(bench.signals("alice1").map(\.body) == ["y3"])
    #expect(bench.signals("alice1").map(\.index) == [3])
    #expect(bench.signals("b2").last?.body == "offer2")
    #expect(bench.signals("b1").map(\.body) == ["c1", "c2"])
    bench.caller(.call(Bench.callID, .hangUp))
    _ = bench.take()
    #expect(bench.caller(.call(Bench.callID, .signal(.candidate, body: "late"))) == .done)
    #expect(bench.effects.count == 1)
  }

  @Test("R11: a winner's app that began anew hears that it has the call before anything else of it")
  func r11WinnerBeginsAnew() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c1")))
    let session = Bench.session("b1", 2)
    bench.say(.attach(Attach()), device: "b1", session: session)
    let told = bench.deliveries(to: session).map(\.event)
    #expect(told.count == 2)
    guard case .answered? = told.first, case .signal? = told.last else {
      Issue.record("told \(told)")
      return
    }
  }

  @Test("R11: a device that left in mid-ring hears what became of the call when it is back")
  func r11LeftInMidRing() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.sessionClosed(graceful: true), device: "b1")
    bench.caller(.call(Bench.callID, .cancel))
    bench.acknowledgeAll()
    let session = Bench.session("b1", 2)
    bench.say(.attach(Attach()), device: "b1", session: session)
    let reasons = bench.deliveries(to: session).compactMap {
      if case .stop(let stop) = $0.event { stop.reason } else { nil }
    }
    #expect(reasons == [.cancelled])
  }

  @Test("R9, R17: a candidate that is retransmitted is handed over once")
  func r9Candidates() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    let early = Command.Body.call(Bench.callID, .signal(.candidate, body: "c1"))
    for again in [false, true] {
      #expect(bench.say(early, user: "alice", device: "alice1", again: again) == .done)
    }
    #expect(bench.signals("b1").map(\.body) == ["c1"])
    let own = Command.Body.call(Bench.callID, .signal(.candidate, body: "x1"))
    for again in [false, true] { bench.say(own, device: "b1", again: again) }
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    #expect(bench.answers().first?.signals.map(\.body) == ["x1"])
    let late = Command.Body.call(Bench.callID, .signal(.candidate, body: ""))
    for again in [false, true] { bench.say(late, device: "b1", again: again) }
    // Meant, though it is the same text: an end of candidates after another.
    bench.say(late, device: "b1")
    #expect(bench.signals("alice1").map(\.body) == ["", ""])
  }

  @Test("R18: what a device says of time is never trusted")
  func r18Clocks() {
    var bench = Bench()
    // A session announced by an edge whose clock is a day ahead does not move any deadline.
    bench.say(
      .attach(Attach(attachedAt: bench.now + .seconds(86_400))), device: "b1")
    bench.place(seconds: 5)
    let deadline = bench.invites("b1").first?.deadline
    #expect(deadline == bench.now + .seconds(5))
    bench.pass(Span(microseconds: 4_999_999))
    #expect(bench.ends.isEmpty)
    bench.pass(Span(microseconds: 1))
    #expect(bench.ends.map(\.reason) == [.unanswered])
    #expect(bench.ends.first?.at == deadline)
  }

  @Test("R19: no device: unreachable at once")
  func r19NoDevice() {
    var bench = Bench()
    let reply = bench.place()
    #expect(reply?.state?.phase == .ended)
    #expect(reply?.state?.reason == .unreachable)
    #expect(bench.stops("alice1").map(\.reason) == [.unreachable])
    #expect(bench.ends.count == 1)
  }

  @Test("R19: every device leaves: unreachable at once")
  func r19AllLeave() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.sessionClosed(graceful: true), device: "b1")
    #expect(bench.ends.isEmpty)
    bench.say(.sessionClosed(graceful: true), device: "b2")
    #expect(bench.ends.map(\.reason) == [.unreachable])
  }

  @Test("R22: the caller's session breaks and comes back: nobody notices")
  func r22CallerBack() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.acknowledgeAll()
    _ = bench.take()
    bench.caller(.callerGone([Bench.callID]))
    bench.pass(.seconds(14))
    let back = Bench.session("alice1", 2)
    #expect(bench.caller(.call(Bench.callID, .resume), session: back)?.state?.phase == .placed)
    bench.pass(.seconds(10))
    #expect(bench.deliveries(to: "b1").isEmpty)
    #expect(bench.ends.isEmpty)
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    #expect(bench.deliveries(to: back).count == 1)
  }

  @Test("R22: the caller stays away: cancelled after the grace")
  func r22CallerStaysAway() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.callerGone([Bench.callID]))
    bench.pass(.seconds(15))
    #expect(bench.stops("b1").map(\.reason).first == .cancelled)
    #expect(bench.ends.map(\.reason) == [.cancelled])
  }
}
