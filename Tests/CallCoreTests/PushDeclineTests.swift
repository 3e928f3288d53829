import CallCore
import Testing

/// A device that declines, or says busy, by what a push allows, while its app rings on a session.
@Suite struct PushDeclineTests {
  /// The session of an HTTP request, which is another one than the app's.
  private let request = SessionRef(edge: 9, number: 77)

  /// b1 was pushed, attached and rings; b2 rings too.
  private func ringing() -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.attach("b2")
    bench.place()
    bench.report(.accepted, "b1", token: "v1")
    bench.attach("b1")
    bench.acknowledgeAll()
    _ = bench.take()
    return bench
  }

  @Test("declined for the user by a request: the app is told, and the others") func everywhere() {
    for session in [request, Bench.session("b1")] {
      var bench = ringing()
      let reply = bench.say(.decline(.everywhere), "b1", session: session)
      #expect(reply?.state?.reason == .declined)
      let stop = Stop(reason: .declined, by: .b1)
      #expect(bench.stops("b1") == (session == request ? [stop] : []))
      #expect(bench.stops("b2") == [stop])
      #expect(bench.ends.map(\.reason) == [.declined])
    }
  }

  @Test(
    "for this device only, or busy: the others ring on",
    arguments: [CallVerb.decline(.here), .busy])
  func here(verb: CallVerb) {
    var bench = ringing()
    bench.say(verb, "b1", session: request)
    #expect(bench.stops("b1").map(\.reason) == [verb == .busy ? .busy : .declined])
    #expect(bench.stops("b2").isEmpty)
    #expect(bench.ends.isEmpty)
    // The request retransmitted has no second effect.
    _ = bench.take()
    bench.say(verb, "b1", session: request)
    #expect(bench.stops("b1").isEmpty)
  }

  @Test("its session is broken then: it is told when it is back", arguments: DeclineScope.allCases)
  func broken(scope: DeclineScope) {
    var bench = ringing()
    bench.close("b1")
    bench.say(.decline(scope), "b1", session: request)
    _ = bench.take()
    bench.attach("b1")
    #expect(bench.stops("b1").map(\.reason) == [.declined])
    #expect(bench.invites("b1").isEmpty)
  }

  @Test("who never had an invite has nothing to stop") func asleep() {
    var bench = Bench()
    bench.enrol("b1", voip: "v1", can: [])
    bench.attach("b2")
    bench.place()
    bench.acknowledgeAll()
    _ = bench.take()
    bench.say(.decline(.everywhere), "b1", session: request)
    bench.acknowledgeAll()
    bench.pass(.seconds(2))
    #expect(bench.journal.contains { $0.change == .settled }, "nobody is waited for")
  }

  @Test(
    "the owner died before the app heard it: the next one says it",
    arguments: DeclineScope.allCases, [true, false])
  func newOwner(scope: DeclineScope, isThere: Bool) {
    var bench = ringing()
    bench.say(.decline(scope), "b1", session: request)
    var next = bench.takenOver(
      checkpoint: false, registered: ["b1"], attached: isThere ? ["b1", "b2"] : ["b2"])
    if !isThere {
      #expect(next.stops("b1").isEmpty)
      next.attach("b1")
    }
    #expect(next.stops("b1").map(\.reason) == [.declined])
    #expect(next.invites("b1").isEmpty)
    #expect(next.stops("b2").isEmpty == (scope == .here))
  }
}
