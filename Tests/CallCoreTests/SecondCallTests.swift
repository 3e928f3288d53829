import CallCore
import Testing

/// A second call rings, and says that it is one, or the user is busy.
@Suite struct SecondCallTests {
  private static let second = CallID("00000000-0000-4000-8000-000000000002")!
  private static let placed = CallID("00000000-0000-4000-8000-000000000003")!

  private func bench(busy: Bool = true) -> Bench {
    var limits = CallLimits()
    limits.busyWhileInCall = busy
    var bench = Bench(limits: limits)
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

  @Test func afterTheCallItIsFree() {
    var bench = bench()
    talk(&bench)
    talk(&bench, number: 2, [])
    #expect(bench.place(Self.second)?.state?.phase == .placed)
    #expect(bench.invites("b1").map(\.isSecondCall) == [false])
  }

  @Test("R9: a report that is retransmitted late changes nothing")
  func aLateReportIsIgnored() {
    var bench = bench()
    talk(&bench, number: 2, [])
    talk(&bench, number: 1)
    #expect(bench.place(Self.second)?.state?.phase == .placed)
  }

  @Test func whereSecondCallsRingTheInviteSaysSo() {
    var bench = bench(busy: false)
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")
    bench.place(Self.second)
    #expect(bench.invites("b2").map(\.isSecondCall) == [false, true])
    // Also by a new owner, however the first call has ended since.
    bench.caller(.call(Bench.callID, .hangUp))
    var next = bench.takenOver()
    next.say(
      .attach(Attach(deviceName: "b2", announce: true)), device: "b2",
      session: Bench.session("b2"))
    next = next.begun()
    #expect(next.invites("b2").map(\.isSecondCall) == [true])
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

  @Test("R10: a new owner learns it with the session")
  func aNewOwnerLearnsIt() {
    var limits = CallLimits()
    limits.busyWhileInCall = true
    var next = bench().takenOver(limits: limits)
    let attach = Attach(
      deviceName: "b1", announce: true, talking: Talking(number: 4, calls: [Self.placed]))
    next.say(.attach(attach), device: "b1")
    next = next.begun()
    #expect(next.place(Self.second)?.state?.reason == .busy)
    // A report that was under way to the former owner is older.
    talk(&next, number: 3, [])
    let third = CallID("00000000-0000-4000-8000-000000000004")!
    #expect(next.place(third)?.state?.reason == .busy)
  }

  @Test("R22: a caller that lost its session is in its call for as long as it may stay away")
  func theSessionBreaks() {
    var bench = bench()
    bench.say(.register(RegistrationRequest()), device: "b1")
    bench.answerStores()
    talk(&bench)
    bench.say(.sessionClosed(graceful: false), device: "b1")
    bench.pass(.seconds(59))
    #expect(bench.place(Self.second)?.state?.reason == .busy)
    bench.pass(.seconds(2))
    let third = CallID("00000000-0000-4000-8000-000000000004")!
    #expect(bench.place(third)?.state?.phase == .placed)
  }

  @Test func whoSignsOutIsInNoCall() {
    var bench = bench()
    bench.say(.register(RegistrationRequest()), device: "b1")
    bench.answerStores()
    talk(&bench)
    bench.say(.sessionClosed(graceful: true), device: "b1")
    #expect(bench.place(Self.second)?.state?.phase == .placed)
  }

  @Test func anUnknownDeviceSaysNothing() {
    var bench = bench()
    bench.say(.talking(Talking(number: 1, calls: [Self.placed])), device: "stray")
    let bob = bench.shard.inspect(user: UserKey(app: Bench.app, user: "bob"))
    #expect(bob?.devices.map(\.device) == ["b1", "b2"])
  }

  @Test func aFormerSessionSaysNothing() {
    var bench = bench()
    bench.say(
      .talking(Talking(number: 1, calls: [Self.placed])), device: "b1",
      session: Bench.session("b1", 9))
    #expect(bench.place(Self.second)?.state?.phase == .placed)
  }
}
