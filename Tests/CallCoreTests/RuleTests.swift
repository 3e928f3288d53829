import CallCore
import Testing

/// The rules of one call, apart from races.
@Suite struct RuleTests {
  enum Fate: CaseIterable { case answered, unanswered, cancelled, declinedElsewhere }

  @Test(arguments: Fate.allCases, [DeclineScope.here, nil])
  func whatADeviceDidForItselfIsItsEnd(fate: Fate, scope: DeclineScope?) {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    let refusal =
      scope.map { Command.Body.call(Bench.callID, .decline($0)) } ?? .call(Bench.callID, .busy)
    let first = bench.say(refusal, device: "b1")?.state
    #expect(first?.reason == (scope == nil ? .busy : .declined))
    #expect(first?.by?.device == "b1")
    switch fate {
    case .answered: bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")
    case .unanswered: bench.pass(.seconds(30))
    case .cancelled: bench.caller(.call(Bench.callID, .cancel))
    case .declinedElsewhere: bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b2")
    }
    let asked: [Command.Body] = [
      refusal, .call(Bench.callID, .query), .call(Bench.callID, .answer(description: "")),
    ]
    for command in asked {
      let state = bench.say(command, device: "b1")?.state
      #expect(state?.phase == .ended && state?.reason == first?.reason && state?.by == first?.by)
    }
    #expect(bench.say(.call(Bench.callID, .query), device: "b2")?.state?.by?.device != "b1")
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
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    bench.say(.call(Bench.callID, .alerting), device: "b2")
    let ringing = bench.deliveries(to: "alice1").filter {
      if case .ringing = $0.event { true } else { false }
    }
    #expect(ringing.count == 1, "the caller hears of the first device only")
    #expect(bench.say(.call(Bench.callID, .query), device: "b3")?.state?.phase == .ringing)
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b2")
    bench.caller(.call(Bench.callID, .connected))
    bench.say(.call(Bench.callID, .connected), device: "b2")
    #expect(bench.say(.call(Bench.callID, .hangUp), device: "b2")?.state?.reason == .hungUp)
    #expect(bench.stops("alice1").map(\.reason) == [.hungUp])
    #expect(bench.stops("alice1").first?.by?.device == "b2")
    #expect(bench.stops("b2").isEmpty, "who hangs up learns it from its reply")
    #expect(bench.stops("b1").count == 1)
  }

  /// Its app was started anew while nobody served, and was told of the call again.
  @Test func whoEndsACallOnAFormerSessionIsToldOnTheNewOne() {
    let later = Bench.session("b1", edge: 2)
    var hungUp = Bench()
    hungUp.attach("b1")
    hungUp.place()
    hungUp.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    hungUp.attach("b1", edge: 2)
    #expect(hungUp.say(.call(Bench.callID, .hangUp), device: "b1")?.state?.reason == .hungUp)
    #expect(hungUp.stops("b1").isEmpty)
    guard case .stop(let stop)? = hungUp.deliveries(to: later).last?.event else {
      Issue.record("the winner's new session was not told")
      return
    }
    #expect(stop.reason == .hungUp && stop.by?.device == "b1")

    let back = SessionRef(edge: 2, number: 77)
    for answered in [false, true] {
      var caller = Bench()
      caller.attach("b1")
      caller.place()
      if answered { caller.say(.call(Bench.callID, .answer(description: "")), device: "b1") }
      caller.caller(.call(Bench.callID, .resume), session: back)
      let reply = caller.caller(
        answered ? .call(Bench.callID, .hangUp) : .call(Bench.callID, .cancel))
      let reason = answered ? EndReason.hungUp : .cancelled
      #expect(reply?.state?.reason == reason)
      guard case .stop(let stop)? = caller.deliveries(to: back).last?.event else {
        Issue.record("the caller's new session was not told")
        continue
      }
      #expect(stop.reason == reason && stop.by?.device == "alice1")
      #expect(caller.stops("alice1").isEmpty)
    }
  }

  @Test func versionsGrowForEveryDevice() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    bench.caller(.call(Bench.callID, .signal(.candidate, body: "c")))
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.caller(.call(Bench.callID, .hangUp))
    for device in ["alice1", "b1", "b2"] {
      let versions = bench.deliveries(to: device).map(\.version)
      #expect(versions == Array(Set(versions)).sorted(), "\(device)")
      #expect(!versions.isEmpty)
    }
  }

  @Test func declinedForTheUser() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    let reply = bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b1")
    #expect(reply?.state?.reason == .declined)
    #expect(bench.stops("b2").map(\.reason) == [.declined])
    #expect(bench.stops("b2").first?.by?.device == "b1")
    #expect(bench.stops("b2").first?.missed == false)
    #expect(bench.stops("alice1").map(\.reason) == [.declined])
    #expect(bench.stops("b1").isEmpty)
  }

  @Test func declinedHereRingsOn() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    let reply = bench.say(.call(Bench.callID, .decline(.here)), device: "b1")
    #expect(reply?.state?.phase == .ended)
    #expect(reply?.state?.reason == .declined)
    #expect(bench.ends.isEmpty)
    #expect(bench.stops("b2").isEmpty)
    #expect(
      bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")?.error == .wrongState)
    #expect(
      bench.say(.call(Bench.callID, .decline(.here)), device: "b2")?.state?.reason == .declined)
    #expect(bench.stops("alice1").map(\.reason) == [.declined])
  }

  @Test func busyDevices() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.call(Bench.callID, .busy), device: "b1")
    #expect(bench.ends.isEmpty)
    bench.say(.call(Bench.callID, .busy), device: "b2")
    #expect(bench.stops("alice1").map(\.reason) == [.busy])
    #expect(bench.ends.first?.missed == true)
  }

  @Test func aDeclineWeighsMoreThanBusy() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.call(Bench.callID, .decline(.here)), device: "b1")
    bench.say(.call(Bench.callID, .busy), device: "b2")
    #expect(bench.stops("alice1").map(\.reason) == [.declined])
  }

  @Test func cancelledIsMissed() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    #expect(bench.caller(.call(Bench.callID, .cancel))?.state?.reason == .cancelled)
    #expect(bench.stops("b1").first?.missed == true)
    #expect(bench.stops("alice1").isEmpty)
  }

  @Test func unansweredAtTheDeadline() {
    var bench = Bench()
    bench.attach("b1")
    bench.place(seconds: 7)
    bench.acknowledgeAll()
    bench.pass(.seconds(7))
    #expect(bench.stops("b1").map(\.reason) == [.unanswered])
    #expect(bench.stops("b1").first?.missed == true)
    #expect(bench.stops("alice1").map(\.reason) == [.unanswered])
    #expect(bench.stops("alice1").first?.missed == false)
  }

  @Test func busyWhileInCallIsAChoice() {
    var limits = CallLimits()
    limits.busyWhileInCall = true
    let other = CallID(high: 7, low: 7)
    for (limits, reason) in [(limits, EndReason.busy as EndReason?), (CallLimits(), nil)] {
      var bench = Bench(limits: limits)
      bench.attach("b1")
      bench.place()
      bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
      let reply = bench.place(other, user: "carol", device: "c1")
      #expect(reply?.state?.reason == reason)
    }
  }

  @Test func callingOneselfRingsTheOtherDevices() {
    var bench = Bench()
    bench.attach("b1", "b2", "b3")
    bench.say(.place(PlaceRequest(call: Bench.callID)), device: "b1")
    #expect(bench.invites("b1").isEmpty)
    #expect(bench.invites("b2").count == 1)
    #expect(bench.invites("b3").count == 1)
    bench.attach("b1")
    #expect(bench.invites("b1").isEmpty)
    #expect(bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")?.won == true)
    #expect(bench.answers("b1").count == 1)
  }

  @Test func deliveriesRepeatUntilAcknowledged() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.pass(.milliseconds(499))
    #expect(bench.invites("b1").count == 1)
    bench.pass(.milliseconds(1))
    #expect(bench.invites("b1").count == 2)
    bench.pass(.seconds(1))
    #expect(bench.invites("b1").count == 3)
    bench.pass(.seconds(2))
    #expect(bench.invites("b1").count == 4)
    bench.pass(.seconds(4))
    #expect(bench.invites("b1").count == 5)
    bench.pass(.seconds(20))
    #expect(bench.invites("b1").count == 5, "then it waits for the device's next session")
    #expect(Set(bench.deliveries(to: "b1").map(\.version)).count == 1)
    #expect(bench.shard.counts.deliveryRepeatsTotal >= 4)
  }

  @Test func anAcknowledgedDeliveryIsNotRepeated() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.acknowledgeAll()
    _ = bench.take()
    bench.pass(.seconds(20))
    #expect(bench.effects.isEmpty)
  }

  @Test func whoAlertsHasTheInvite() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    _ = bench.take()
    bench.pass(.seconds(20))
    #expect(bench.deliveries(to: "b1").isEmpty)
  }

  @Test func howLongItTookUntilAllRang() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
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
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.now = bench.now + .milliseconds(500)
    var outcome = Outcome()
    bench.shard.fire(now: bench.now, into: &outcome)
    #expect(!outcome.effects.isEmpty)
    #expect(outcome.urgency == .urgent)
  }

  @Test func anEndedCallIsKeptThenForgotten() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.call(Bench.callID, .cancel))
    bench.acknowledgeAll()
    bench.pass(.seconds(599))
    #expect(bench.say(.call(Bench.callID, .query), device: "b1")?.state?.reason == .cancelled)
    bench.pass(.seconds(2))
    #expect(bench.say(.call(Bench.callID, .query), device: "b1")?.state?.phase == .unknown)
    #expect(bench.shard.counts.endedKept == 0)
  }

  @Test func strangersAreRefusedAndLearnNothing() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    let bodies: [Command.Body] = [
      .call(Bench.callID, .answer(description: "")), .call(Bench.callID, .decline(.everywhere)),
      .call(Bench.callID, .cancel), .call(Bench.callID, .hangUp), .call(Bench.callID, .alerting),
      .call(Bench.callID, .signal(.candidate, body: "x")), .call(Bench.callID, .busy),
      .call(Bench.callID, .connected), .call(Bench.callID, .resume),
    ]
    for body in bodies {
      // As if there were no such call.
      #expect(bench.say(body, user: "mallory", device: "m1")?.error == .unknownCall, "\(body)")
      // The caller's other devices may ask for it, so they may know of it.
      #expect(bench.say(body, user: "alice", device: "alice2")?.error == .notParty, "\(body)")
    }
    #expect(
      bench.say(.call(Bench.callID, .query), user: "alice", device: "alice2")?.state?.phase
        == .placed)
    #expect(
      bench.say(.call(Bench.callID, .query), user: "mallory", device: "m1")?.state?.phase
        == .unknown)
    #expect(bench.caller(.call(Bench.callID, .answer(description: "")))?.error == .notParty)
    #expect(bench.say(.call(Bench.callID, .cancel), device: "b1")?.error == .notParty)
    #expect(bench.ends.isEmpty)
  }

  @Test func unknownCalls() {
    var bench = Bench()
    bench.attach("b1")
    #expect(
      bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")?.error == .unknownCall)
    #expect(bench.caller(.call(Bench.callID, .cancel))?.error == .unknownCall)
    bench.say(.ack([Acknowledgement(call: Bench.callID, version: 9)]), device: "b1")
    #expect(bench.journal.isEmpty)
  }

  @Test func declineWithoutAttachingAsAfterAPush() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    let reply = bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b9")
    #expect(reply?.state?.reason == .declined)
    #expect(bench.stops("b1").map(\.reason) == [.declined])
  }

  @Test func hangUpBeforeTheAnswer() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    #expect(bench.say(.call(Bench.callID, .hangUp), device: "b1")?.error == .wrongState)
    #expect(bench.caller(.call(Bench.callID, .hangUp))?.state?.reason == .cancelled)
  }

  @Test func theWinnerCannotDecline() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    #expect(
      bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b1")?.error == .wrongState)
    #expect(bench.ends.isEmpty)
  }

  @Test func bothSidesVanish() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.caller(.call(Bench.callID, .connected))
    bench.say(.call(Bench.callID, .connected), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.caller(.callerGone([Bench.callID]))
    bench.pass(.seconds(61))
    #expect(bench.ends.map(\.reason) == [.failed])
  }

  @Test func oneSideVanishes() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.caller(.call(Bench.callID, .connected))
    bench.say(.call(Bench.callID, .connected), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(59))
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.ends.map(\.reason) == [.hungUp])
    #expect(bench.ends.first?.by?.device == "b1")
  }

  @Test func theWinnerComesBack() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.caller(.call(Bench.callID, .connected))
    bench.say(.call(Bench.callID, .connected), device: "b1")
    bench.acknowledgeAll()
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(30))
    let back = Bench.session("b1", 3)
    bench.say(.attach(Attach()), device: "b1", session: back)
    #expect(bench.deliveries(to: back).count == 1)
    bench.pass(.seconds(600))
    #expect(bench.ends.isEmpty)
  }

  @Test func oneDeviceDropsAndTheOtherDeclines() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(3))
    bench.say(.call(Bench.callID, .decline(.here)), device: "b2")
    #expect(bench.ends.isEmpty, "the one that dropped may come back")
    bench.pass(.seconds(14))
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(
      bench.ends.map(\.reason) == [.declined], "it does not ring nobody until the ring timeout")
  }

  @Test func everyDeviceDropsAndNobodyReturns() {
    var bench = Bench()
    bench.attach("b1", "b2")
    bench.place()
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b2")
    bench.pass(.seconds(14))
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.ends.map(\.reason) == [.unreachable])
  }
}
