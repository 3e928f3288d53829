import CallCore
import Testing

/// Why a call ended as unreachable: no device is there, no device can be woken, or all devices were lost.
@Suite struct UnreachableTests {
  @Test("R19: the user has no device")
  func nobody() {
    var bench = Bench()
    let state = bench.place()?.state
    #expect(state?.reason == .unreachable)
    #expect(state?.unreachable == .noDevice)
    #expect(bench.stops("alice1").map(\.unreachable) == [.noDevice])
  }

  @Test("R19: the user's device is registered, and no push makes it ring")
  func notWakeable() {
    var bench = Bench()
    bench.attach("b1")
    bench.say(.register(RegistrationRequest()), device: "b1")
    bench.answerStores()
    bench.say(.sessionClosed(graceful: true), device: "b1")
    #expect(bench.place()?.state?.unreachable == .notWakeable)
  }

  @Test("R19: the user's device only places calls")
  func onlyPlaces() {
    var bench = Bench()
    bench.say(.attach(Attach(onlyPlaces: true)), device: "b1")
    #expect(bench.place()?.state?.unreachable == .notWakeable)
  }

  @Test("R19: the device that rang is gone, and a new owner says why")
  func lost() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.sessionClosed(graceful: true), device: "b1")
    #expect(bench.stops("alice1").map(\.unreachable) == [.lost])
    var next = bench.takenOver().begun()
    let state = next.caller(.call(Bench.callID, .query))?.state
    #expect(state?.unreachable == .lost)
  }

  @Test func aCalleeIsNotTold() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.sessionClosed(graceful: true), device: "b1")
    bench.say(.attach(Attach(deviceName: "b1")), device: "b1", session: Bench.session("b1", 1))
    let stops = bench.deliveries(to: Bench.session("b1", 1)).compactMap {
      if case .stop(let stop) = $0.event { stop } else { nil }
    }
    #expect(stops.map(\.unreachable) == [nil])
  }

  @Test func otherEndsHaveNoSuchCause() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.ends.map(\.unreachable) == [nil])
  }
}
