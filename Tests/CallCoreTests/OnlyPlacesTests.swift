import CallCore
import Testing

/// Devices that only place calls.
@Suite struct OnlyPlacesTests {
  private static let placer = Attach(onlyPlaces: true)

  @Test func suchADeviceIsNotRung() {
    var bench = Bench()
    bench.attach("b1")
    bench.say(.attach(Self.placer), device: "b2")
    bench.place()
    #expect(bench.invites("b1").count == 1)
    #expect(bench.invites("b2").isEmpty)
    bench.say(.attach(Self.placer), device: "b3")
    #expect(bench.invites("b3").isEmpty, "it attaches in mid-ring")
  }

  @Test func aUserWithoutAnyOtherDeviceIsUnreachable() {
    var bench = Bench()
    bench.say(.attach(Self.placer), device: "b1")
    bench.place()
    bench.pass(.seconds(10))
    #expect(bench.stops("alice1").first?.reason == .unreachable)
    #expect(bench.deliveries(to: "b1").isEmpty)
  }

  @Test(arguments: [CallVerb.alerting, .answer(description: "sdp"), .decline(.everywhere), .busy])
  func itHasNoPartInTheCall(verb: CallVerb) {
    var bench = Bench()
    bench.attach("b1")
    bench.say(.attach(Self.placer), device: "b2")
    bench.place()
    let reply = bench.say(.call(Bench.callID, verb), device: "b2")
    #expect(reply?.error == .notParty)
    #expect(bench.stops("b1").isEmpty)
  }

  @Test(arguments: [false, true]) func aNewOwnerKnowsIt(checkpoint: Bool) {
    var bench = Bench()
    bench.attach("b1")
    bench.say(.attach(Self.placer), device: "b2")
    bench.place()
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    next.say(.attach(Attach(announce: true)), device: "b1")
    next.say(.attach(Attach(announce: true, onlyPlaces: true)), device: "b2")
    next.run { $0.begin(now: $1, into: &$2) }
    #expect(next.invites("b1").count == 1)
    #expect(next.invites("b2").isEmpty)
  }

  @Test func aLaterSessionOfTheDeviceIsRung() {
    var bench = Bench()
    bench.say(.attach(Self.placer), device: "b1")
    bench.say(.attach(Attach()), device: "b1", session: Bench.session("b1", 2))
    bench.place()
    #expect(bench.deliveries(to: Bench.session("b1", 2)).count == 1)
  }
}
