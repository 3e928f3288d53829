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
}
