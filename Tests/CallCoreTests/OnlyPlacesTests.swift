import CallCore
import Testing

/// Devices that only place calls.
@Suite struct OnlyPlacesTests {
  private static let placer = Attach(onlyPlaces: true)

  /// Alice calls bob's b1; b2 only places calls.
  private func ringing() -> Bench {
    var bench = Bench()
    bench.attach("b1")
    bench.say(.attach(Self.placer), device: "b2")
    bench.place()
    return bench
  }

  @Test("such a device is not rung, unless it has a later session") func notRung() {
    var bench = ringing()
    #expect(bench.invites("b1").count == 1)
    #expect(bench.invites("b2").isEmpty)
    bench.say(.attach(Self.placer), device: "b3")
    #expect(bench.invites("b3").isEmpty, "it attaches in mid-ring")
    var again = Bench()
    again.say(.attach(Self.placer), device: "b1")
    again.attach("b1", session: Bench.session("b1", 2))
    again.place()
    #expect(again.deliveries(to: Bench.session("b1", 2)).count == 1)
  }

  @Test("R19: a user without any other device is unreachable") func alone() {
    var bench = Bench()
    bench.say(.attach(Self.placer), device: "b1")
    #expect(bench.place()?.state?.unreachable == .notWakeable)
    bench.pass(.seconds(10))
    #expect(bench.stops("alice1").first?.reason == .unreachable)
    #expect(bench.deliveries(to: "b1").isEmpty)
  }

  @Test(arguments: [CallVerb.alerting, .answer(description: "sdp"), .decline(.everywhere), .busy])
  func itHasNoPartInTheCall(verb: CallVerb) {
    var bench = ringing()
    #expect(bench.say(verb, "b2")?.error == .notParty)
    #expect(bench.stops("b1").isEmpty)
  }

  @Test(arguments: [false, true]) func aNewOwnerKnowsIt(checkpoint: Bool) {
    let bench = ringing()
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    next.announce("b1")
    next.say(.attach(Attach(announce: true, onlyPlaces: true)), device: "b2")
    next.begin()
    #expect(next.invites("b1").count == 1)
    #expect(next.invites("b2").isEmpty)
  }
}
