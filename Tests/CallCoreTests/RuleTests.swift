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

  /// Its app was started anew while no node served the shard, and was notified of the call again.
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
}
