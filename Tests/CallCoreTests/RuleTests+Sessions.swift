import CallCore
import Testing

/// Who may do what, and devices that lose their sessions.
extension RuleTests {
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
    bench.say(.call(Bench.callID, .resume), device: "b1", session: back)
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
