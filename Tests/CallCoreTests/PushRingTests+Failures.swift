import CallCore
import Testing

/// Pushes that fail, and legs that nothing wakes.
extension PushRingTests {
  // MARK: R19

  @Test("R19: no token that could ring: unreachable at once") func nothingToWake() {
    var bench = Bench()
    bench.enrol("b1", alert: "a1", can: [])
    bench.enrol("b2")
    #expect(bench.place()?.state?.reason == .unreachable)
    #expect(bench.pushes.isEmpty)
  }

  @Test(
    "R19: no push arrives: unreachable at once",
    arguments: [
      PushOutcome.tokenGone(at: nil), .rejected(reason: "BadDeviceToken"), .expired,
      .failed(reason: "x"),
    ])
  func allRefused(outcome: PushOutcome) {
    var bench = sleeping("b1", "b2")
    bench.place()
    bench.pass(.milliseconds(100))
    #expect(bench.report(outcome, "b1") == .done)
    #expect(bench.ends.isEmpty, "b2 is on its way")
    #expect(bench.report(outcome, "b2") == .done)
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(bench.stops("alice1").map(\.reason) == [.unreachable])
    #expect(bench.report(outcome, "b2", again: true) == .done, "retransmitted")
    #expect(bench.ends.count == 1)
  }

  @Test("R19: the work queue does not take it") func queueRefuses() {
    var bench = sleeping("b1")
    bench.place()
    let job = bench.pushes[0]
    bench.run { $0.pushNotQueued(job, reason: "full", now: $1, into: &$2) }
    #expect(bench.ends.map(\.reason) == [.unreachable])
  }

  @Test("a failed push matters not to a device that attached, or that may be back in a moment")
  func failureAfterAttach() {
    var bench = sleeping("b1")
    bench.place()
    bench.attach("b1", edge: 2)
    bench.report(.failed(reason: "x"), "b1")
    bench.pass(.seconds(10))
    #expect(bench.ends.isEmpty)
    var awaited = sleeping("b1")
    awaited.attach("b1")
    awaited.say(.sessionClosed(graceful: false), device: "b1")
    awaited.place()
    awaited.report(.rejected(reason: "x"), "b1")
    awaited.pass(.milliseconds(4999))
    #expect(awaited.ends.isEmpty, "its socket broke just now")
    awaited.pass(.milliseconds(1))
    #expect(awaited.ends.map(\.reason) == [.unreachable])
  }

  @Test("the last refusal decides: busy, declined here, unreachable") func refusals() {
    var bench = sleeping("b1", "b2")
    bench.place()
    bench.report(.failed(reason: "x"), "b1")
    bench.say(.call(Bench.callID, .busy), device: "b2")
    #expect(bench.ends.map(\.reason) == [.busy])
    var declined = sleeping("b1", "b2")
    declined.place()
    declined.say(.call(Bench.callID, .decline(.here)), device: "b1")
    #expect(declined.ends.isEmpty)
    declined.report(.failed(reason: "x"), "b2")
    #expect(declined.ends.map(\.reason) == [.declined])
  }

  @Test("a woken device that declines before it attached hears one story") func oneStory() {
    for scope in DeclineScope.allCases {
      var bench = sleeping("b1", "b2")
      bench.place()
      let reply = bench.say(.call(Bench.callID, .decline(scope)), device: "b1")
      #expect(reply?.state?.phase == .ended)
      #expect(reply?.state?.reason == .declined)
      let back = Bench.session("b1", edge: 2)
      let attached = bench.say(
        .attach(Attach(forCall: Bench.callID)), device: "b1", session: back)
      #expect(attached?.state?.reason == .declined)
      #expect(bench.deliveries(to: back).isEmpty, "it has its answer")
    }
  }

  @Test("what it was answered stays true, however the call ends for the others", arguments: 0..<3)
  func oneStoryToTheEnd(how: Int) {
    for command in [Command.Body.call(Bench.callID, .decline(.here)), .call(Bench.callID, .busy)] {
      var bench = sleeping("b1", "b2")
      bench.place()
      let first = bench.say(command, device: "b1")?.state
      switch how {
      case 0: bench.caller(.call(Bench.callID, .cancel))
      case 1: bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")
      default: bench.pass(.seconds(30))
      }
      let back = Bench.session("b1", edge: 2)
      let attached = bench.say(
        .attach(Attach(forCall: Bench.callID)), device: "b1", session: back)?.state
      #expect(attached?.phase == .ended)
      #expect(attached?.reason == first?.reason)
      #expect(attached?.by == first?.by)
      #expect(bench.say(command, device: "b1", session: back)?.state?.reason == first?.reason)
      #expect(bench.deliveries(to: back).isEmpty)
    }
  }

  @Test("a push that failed, and yet the device comes: it is told that it rings, and rings")
  func comesAllTheSame() {
    var bench = sleeping("b1")
    bench.attach("b2")
    bench.place()
    bench.report(.failed(reason: "x"), "b1")
    let back = Bench.session("b1", edge: 2)
    let attached = bench.say(.attach(Attach(forCall: Bench.callID)), device: "b1", session: back)
    #expect(attached?.state?.phase == .placed)
    #expect(bench.deliveries(to: back).count == 1)
    #expect(
      bench.say(.call(Bench.callID, .answer(description: "")), device: "b1", session: back)?.won
        == true)
  }
}
