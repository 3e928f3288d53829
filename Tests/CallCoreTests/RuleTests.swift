import CallCore
import Testing

/// The rules of one call, apart from races.
@Suite struct RuleTests {
  enum Fate: CaseIterable { case answered, unanswered, cancelled, declinedElsewhere }

  @Test(arguments: Fate.allCases, [CallVerb.decline(.here), .busy])
  func whatADeviceDidForItselfIsItsEnd(fate: Fate, refusal: CallVerb) {
    var bench = Bench.ringing("b1", "b2")
    let first = bench.say(refusal, "b1")?.state
    #expect(first?.reason == (refusal == .busy ? .busy : .declined))
    #expect(first?.by?.device == "b1")
    switch fate {
    case .answered: bench.answer("b2")
    case .unanswered: bench.pass(.seconds(30))
    case .cancelled: bench.caller(.cancel)
    case .declinedElsewhere: bench.say(.decline(.everywhere), "b2")
    }
    for verb in [refusal, .query, .answer(description: "")] {
      let state = bench.say(verb, "b1")?.state
      #expect(state?.phase == .ended && state?.reason == first?.reason && state?.by == first?.by)
    }
    #expect(bench.state("b2")?.by?.device != "b1")
  }

  @Test func aCallFromPlacingToHangUp() {
    var bench = Bench()
    bench.attach("b1", "b2", "b3")
    #expect(bench.place()?.state?.phase == .placed)
    for device in ["b1", "b2", "b3"] {
      #expect(bench.invites(device).count == 1)
      #expect(bench.invites(device).first?.caller.user == "alice")
      #expect(bench.invites(device).first?.deadline == bench.now + .seconds(30))
    }
    bench.say(.alerting, "b1")
    bench.say(.alerting, "b2")
    let ringing = bench.deliveries(to: "alice1").filter {
      if case .ringing = $0.event { true } else { false }
    }
    #expect(ringing.count == 1, "the caller hears of the first device only")
    #expect(bench.state("b3")?.phase == .ringing)
    bench.answer("b2", "sdp")
    bench.caller(.connected)
    bench.say(.connected, "b2")
    #expect(bench.say(.hangUp, "b2")?.state?.reason == .hungUp)
    #expect(bench.stops("alice1").map(\.reason) == [.hungUp])
    #expect(bench.stops("alice1").first?.by?.device == "b2")
    #expect(bench.stops("b2").isEmpty, "who hangs up learns it from its reply")
    #expect(bench.stops("b1").count == 1)
  }

  @Test func whoEndsACallOnAFormerSessionIsToldOnTheNewOne() {
    var hungUp = Bench.answered("b1")
    hungUp.attach("b1", edge: 2)
    #expect(hungUp.say(.hangUp, "b1")?.state?.reason == .hungUp)
    #expect(hungUp.stops("b1").isEmpty)
    #expect(hungUp.stops(Bench.session("b1", edge: 2)) == [Stop(reason: .hungUp, by: .b1)])

    let back = SessionRef(edge: 2, number: 77)
    for (verb, reason) in [(CallVerb.cancel, EndReason.cancelled), (.hangUp, .hungUp)] {
      var caller = verb == .hangUp ? Bench.answered("b1") : Bench.ringing("b1")
      caller.caller(.resume, session: back)
      #expect(caller.caller(verb)?.state?.reason == reason)
      #expect(caller.stops(back) == [Stop(reason: reason, by: .alice1)])
      #expect(caller.stops("alice1").isEmpty)
    }
  }

  @Test func versionsGrowForEveryDevice() {
    var bench = Bench.ringing("b1", "b2")
    bench.say(.alerting, "b1")
    bench.caller(.signal(.candidate, body: "c"))
    bench.answer("b1")
    bench.caller(.hangUp)
    for device in ["alice1", "b1", "b2"] {
      let versions = bench.deliveries(to: device).map(\.version)
      #expect(versions == Array(Set(versions)).sorted(), "\(device)")
      #expect(!versions.isEmpty)
    }
  }

  @Test func declinedForTheUser() {
    var bench = Bench.ringing("b1", "b2")
    #expect(bench.say(.decline(.everywhere), "b1")?.state?.reason == .declined)
    #expect(bench.stops("b2") == [Stop(reason: .declined, by: .b1)])
    #expect(bench.stops("alice1").map(\.reason) == [.declined])
    #expect(bench.stops("b1").isEmpty)
  }

  @Test("the others ring on until the last one refuses; a decline outweighs busy") func refusals() {
    for (first, second, reason) in [
      (CallVerb.decline(.here), CallVerb.decline(.here), EndReason.declined),
      (.decline(.here), .busy, .declined), (.busy, .busy, .busy),
    ] {
      var bench = Bench.ringing("b1", "b2")
      let state = bench.say(first, "b1")?.state
      #expect(state?.phase == .ended && state?.reason == (first == .busy ? .busy : .declined))
      #expect(bench.ends.isEmpty && bench.stops("b2").isEmpty)
      #expect(bench.answer("b1")?.error == .wrongState)
      #expect(bench.say(second, "b2")?.state?.reason == (second == .busy ? .busy : .declined))
      #expect(bench.stops("alice1").map(\.reason) == [reason])
      #expect(bench.ends.map(\.missed) == [reason == .busy])
    }
  }

  // MARK: Deliveries, and what is kept of a call

  @Test func deliveriesRepeatUntilAcknowledged() {
    var bench = Bench.ringing("b1")
    bench.pass(.milliseconds(499))
    #expect(bench.invites("b1").count == 1)
    for (index, pause) in [Span.milliseconds(1), .seconds(1), .seconds(2), .seconds(4)].enumerated()
    {
      bench.pass(pause)
      #expect(bench.invites("b1").count == index + 2)
    }
    bench.pass(.seconds(20))
    #expect(bench.invites("b1").count == 5, "then it waits for the device's next session")
    #expect(Set(bench.deliveries(to: "b1").map(\.version)).count == 1)
    #expect(bench.shard.counts.deliveryRepeatsTotal >= 4)
  }

  @Test(arguments: [true, false]) func anAcknowledgedDeliveryIsNotRepeated(byAlerting: Bool) {
    var bench = Bench.ringing("b1")
    if byAlerting { bench.say(.alerting, "b1") } else { bench.acknowledgeAll() }
    _ = bench.take()
    bench.pass(.seconds(20))
    #expect(bench.deliveries(to: "b1").isEmpty)
    if !byAlerting { #expect(bench.effects.isEmpty) }
  }

  @Test func howLongItTookUntilAllRang() {
    var bench = Bench.ringing("b1", "b2")
    var spans: [Span] = []
    for (device, pause) in [("b1", Span.milliseconds(3)), ("b2", .milliseconds(4))] {
      bench.now = bench.now + pause
      var outcome = Outcome()
      let command = Command(
        session: Bench.session(device), request: 1, user: UserKey(app: Bench.app, user: "bob"),
        device: DeviceID(device), callee: UserKey(app: Bench.app, user: "bob"),
        body: .call(Bench.callID, .alerting))
      bench.shard.handle(command, now: bench.now, into: &outcome)
      spans += outcome.ringLatencies
    }
    #expect(spans == [.milliseconds(7)])
  }

  @Test func whatIsRepeatedIsUrgent() {
    // A repetition must leave behind an append, or a former owner would speak.
    var bench = Bench.ringing("b1")
    bench.now = bench.now + .milliseconds(500)
    var outcome = Outcome()
    bench.shard.fire(now: bench.now, into: &outcome)
    #expect(!outcome.effects.isEmpty)
    #expect(outcome.urgency == .urgent)
  }

  @Test func anEndedCallIsKeptThenForgotten() {
    var bench = Bench.ringing("b1")
    bench.caller(.cancel)
    bench.acknowledgeAll()
    bench.pass(.seconds(599))
    #expect(bench.state("b1")?.reason == .cancelled)
    bench.pass(.seconds(2))
    #expect(bench.state("b1")?.phase == .unknown)
    #expect(bench.shard.counts.endedKept == 0)
  }

  // MARK: Who may do what, and devices that lose their sessions

  @Test func strangersAreRefusedAndLearnNothing() {
    var bench = Bench.ringing("b1")
    let verbs: [CallVerb] = [
      .answer(description: ""), .decline(.everywhere), .cancel, .hangUp, .alerting,
      .signal(.candidate, body: "x"), .busy, .connected, .resume,
    ]
    for verb in verbs {
      // As if there were no such call.
      #expect(bench.say(verb, "m1", of: "mallory")?.error == .unknownCall, "\(verb)")
      // The caller's other devices may ask for it, so they may know of it.
      #expect(bench.say(verb, "alice2", of: "alice")?.error == .notParty, "\(verb)")
    }
    #expect(bench.state("alice2", of: "alice")?.phase == .placed)
    #expect(bench.state("m1", of: "mallory")?.phase == .unknown)
    #expect(bench.caller(.answer(description: ""))?.error == .notParty)
    #expect(bench.say(.cancel, "b1")?.error == .notParty)
    #expect(bench.ends.isEmpty)
  }

  @Test func unknownCalls() {
    var bench = Bench()
    bench.attach("b1")
    #expect(bench.answer("b1")?.error == .unknownCall)
    #expect(bench.caller(.cancel)?.error == .unknownCall)
    bench.say(.ack([Acknowledgement(call: Bench.callID, version: 9)]), device: "b1")
    #expect(bench.journal.isEmpty)
  }

  @Test func declineWithoutAttachingAsAfterAPush() {
    var bench = Bench.ringing("b1")
    let reply = bench.say(.decline(.everywhere), "b9")
    #expect(reply?.state?.reason == .declined)
    #expect(bench.stops("b1").map(\.reason) == [.declined])
  }

  @Test func hangUpBeforeTheAnswerAndDeclineBehindIt() {
    var bench = Bench.ringing("b1")
    var answered = Bench.answered("b1")
    #expect(bench.say(.hangUp, "b1")?.error == .wrongState)
    #expect(bench.caller(.hangUp)?.state?.reason == .cancelled)
    #expect(answered.say(.decline(.everywhere), "b1")?.error == .wrongState)
    #expect(answered.ends.isEmpty)
  }

  @Test(arguments: [false, true]) func sidesVanish(both: Bool) {
    var bench = Bench.talking("b1")
    bench.close("b1")
    if both { bench.caller(.callerGone([Bench.callID])) }
    bench.endsAfter(.seconds(60), both ? .failed : .hungUp)
    if !both { #expect(bench.ends.first?.by?.device == "b1") }
  }

  /// It does not ring on without a device until the ring timeout.
  @Test(arguments: [EndReason.declined, .unreachable])
  func aDeviceDropsAndTheOtherOneDeclinesOrDropsToo(reason: EndReason) {
    var bench = Bench.ringing("b1", "b2")
    bench.close("b1")
    if reason == .declined {
      bench.pass(.seconds(3))
      bench.say(.decline(.here), "b2")
      #expect(bench.ends.isEmpty, "the one that dropped may come back")
    } else {
      bench.close("b2")
    }
    bench.endsAfter(.seconds(15), reason)
  }
}
