import CallCore
import Testing

/// A second call rings, and says that it is one, or the user is busy.
@Suite struct SecondCallTests {
  private static let second = CallID("00000000-0000-4000-8000-000000000002")!
  private static let placed = CallID("00000000-0000-4000-8000-000000000003")!
  private static let third = CallID("00000000-0000-4000-8000-000000000004")!

  /// - Parameter busy: false: second calls ring, which is the default.
  private func bench(busy: Bool = true) -> Bench {
    var bench = Bench(limits: busy ? CallLimits.with { $0.busyWhileInCall = true } : CallLimits())
    bench.attach("b1", "b2")
    return bench
  }

  /// Bob's first device is in a call that it placed.
  private func talk(_ bench: inout Bench, number: UInt64 = 1, _ calls: [CallID] = [placed]) {
    let reply = bench.say(.talking(Talking(number: number, calls: calls)), device: "b1")
    #expect(reply == .done)
  }

  @Test func aUserInACallThatItPlacedIsBusy() {
    var bench = bench()
    talk(&bench)
    let state = bench.place(Self.second)?.state
    #expect(state?.reason == .busy)
    #expect(bench.invites("b2").isEmpty)
    #expect(bench.stops("alice1").map(\.reason) == [.busy])
    #expect(bench.ends.map(\.missed) == [true])
  }

  @Test("R9: after the call it is free; a report that is retransmitted late changes nothing")
  func afterTheCallItIsFree() {
    var bench = bench()
    talk(&bench)
    talk(&bench, number: 2, [])
    talk(&bench)
    #expect(bench.place(Self.second)?.state?.phase == .placed)
    #expect(bench.invites("b1").map(\.isSecondCall) == [false])
  }

  @Test func whereSecondCallsRingTheInviteSaysSo() {
    var bench = bench(busy: false)
    bench.place()
    bench.answer("b1")
    bench.place(Self.second)
    #expect(bench.invites("b2").map(\.isSecondCall) == [false, true])
    // Also by a new owner, however the first call has ended since.
    bench.caller(.hangUp)
    #expect(bench.nextOwner("b2").invites("b2").map(\.isSecondCall) == [true])
  }

  @Test(arguments: [true, false]) func theAppDecides(busy: Bool) {
    var bench = bench(busy: !busy)
    talk(&bench)
    let reply = bench.say(
      .place(PlaceRequest(call: Self.second, busyWhileInCall: busy)), user: "alice",
      device: "alice1")
    #expect(reply?.state?.reason == (busy ? .busy : nil))
    #expect(bench.invites("b2").map(\.isSecondCall) == (busy ? [] : [true]))
  }

  @Test("R10: a new owner learns it with the session") func aNewOwnerLearnsIt() {
    var next = bench().takenOver(limits: .with { $0.busyWhileInCall = true })
    let talking = Talking(number: 4, calls: [Self.placed])
    next.say(.attach(Attach(deviceName: "b1", announce: true, talking: talking)), device: "b1")
    next.begin()
    #expect(next.place(Self.second)?.state?.reason == .busy)
    // A report that was under way to the former owner is older.
    talk(&next, number: 3, [])
    #expect(next.place(Self.third)?.state?.reason == .busy)
  }

  @Test("R22: a caller without a session is in its call while it may be away")
  func theSessionBreaks() {
    var bench = bench()
    bench.enrol("b1")
    talk(&bench)
    var signedOut = bench
    bench.close("b1")
    bench.pass(.seconds(59))
    #expect(bench.place(Self.second)?.state?.reason == .busy)
    bench.pass(.seconds(2))
    #expect(bench.place(Self.third)?.state?.phase == .placed)
    signedOut.close("b1", graceful: true)
    #expect(signedOut.place(Self.second)?.state?.phase == .placed)
  }

  @Test func anUnknownDeviceAndAFormerSessionSayNothing() {
    var bench = bench()
    let talking = Command.Body.talking(Talking(number: 1, calls: [Self.placed]))
    bench.say(talking, device: "stray")
    let bob = bench.shard.inspect(user: UserKey(app: Bench.app, user: "bob"))
    #expect(bob?.devices.map(\.device) == ["b1", "b2"])
    bench.say(talking, device: "b1", session: Bench.session("b1", 9))
    #expect(bench.place(Self.second)?.state?.phase == .placed)
  }
}
