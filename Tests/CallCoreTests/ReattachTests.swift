import CallCore
import Testing

/// A device between two sockets when it is called: it is waited for, a little.
@Suite struct ReattachTests {
  private func registered(_ devices: String..., limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    for device in devices {
      bench.attach(device)
      bench.say(.register(RegistrationRequest()), device: device)
      for case .store(_, let token) in bench.take() {
        bench.run { $0.registrationStored(token: token, ok: true, now: $1, into: &$2) }
      }
    }
    _ = bench.take()
    return bench
  }

  private func lose(_ bench: inout Bench, _ device: String, graceful: Bool = false) {
    bench.say(.sessionClosed(graceful: graceful), device: device)
  }

  @Test("R11: its edge died just before the call: it attaches elsewhere and rings")
  func comesBackAndRings() {
    var bench = registered("b1")
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    bench.pass(.seconds(2))
    #expect(bench.place()?.state?.phase == .placed)
    bench.pass(.seconds(2))
    #expect(bench.ends.isEmpty)
    bench.attach("b1", edge: 2)
    let back = Bench.session("b1", edge: 2)
    #expect(bench.deliveries(to: back).count == 1)
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty, "it rings like any other")
    #expect(
      bench.say(.call(Bench.callID, .answer(description: "")), device: "b1", session: back)?.won
        == true)
  }

  /// Seed 96002832: an edge stood still for longer than a stop's attempts take. Its sessions went on afterwards, so nothing
  /// was sent again, and the phone rang on.
  @Test("R10, R16: a session that goes on after all attempts is sent once more what it lacks")
  func allAttemptsAreOver() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.acknowledgeAll()
    bench.caller(.call(Bench.callID, .cancel))
    bench.pass(.seconds(20))
    let attempts = bench.stops("b1").count
    #expect(attempts == 5)
    bench.pass(.seconds(60))
    #expect(bench.stops("b1").count == attempts)
    for further in 1...2 {
      bench.say(.attach(Attach(announce: true)), device: "b1")
      #expect(bench.stops("b1").count == attempts + further)
      bench.pass(.seconds(20))
      #expect(bench.stops("b1").count == attempts + further, "one each time")
    }
    bench.acknowledgeAll()
    bench.say(.attach(Attach(announce: true)), device: "b1")
    #expect(bench.stops("b1").count == attempts + 2)
  }

  @Test("R10: so is the caller's device") func allAttemptsToTheCallerAreOver() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    bench.pass(.seconds(20))
    let attempts = bench.deliveries(to: "alice1").count
    #expect(attempts == 5)
    bench.caller(.call(Bench.callID, .resume))
    #expect(bench.deliveries(to: "alice1").count == attempts + 1)
  }

  @Test("R19: it does not come back: unreachable when the grace since its break is over")
  func doesNotComeBack() {
    var bench = registered("b1")
    lose(&bench, "b1")
    bench.pass(.seconds(3))
    #expect(bench.place()?.state?.phase == .placed)
    bench.pass(.milliseconds(1999))
    #expect(bench.ends.isEmpty)
    bench.pass(.milliseconds(1))
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(bench.ends.first?.missed == true)
    #expect(bench.stops("alice1").map(\.reason) == [.unreachable])
    bench.attach("b1", edge: 2)
    #expect(
      bench.deliveries(to: Bench.session("b1", edge: 2)).isEmpty,
      "it never rang, so there is nothing to stop")
  }

  @Test("R19: whoever is away for longer, took its leave or is not registered is not waited for")
  func nobodyToWaitFor() {
    var gone = registered("b1")
    lose(&gone, "b1")
    gone.pass(.seconds(5))
    #expect(gone.place()?.state?.reason == .unreachable)
    var left = registered("b1")
    lose(&left, "b1", graceful: true)
    #expect(left.place()?.state?.reason == .unreachable)
    var stranger = Bench()
    stranger.attach("b1")
    lose(&stranger, "b1")
    #expect(stranger.place()?.state?.reason == .unreachable)
    var limits = CallLimits()
    limits.reattachGrace = .seconds(0)
    var off = registered("b1", limits: limits)
    lose(&off, "b1")
    #expect(off.place()?.state?.reason == .unreachable)
  }

  @Test func othersRingMeanwhileAndItMayJoin() {
    var bench = registered("b1", "b2")
    lose(&bench, "b1")
    bench.place()
    #expect(bench.invites("b2").count == 1)
    bench.acknowledgeAll()
    bench.pass(.seconds(10))
    #expect(bench.ends.isEmpty, "b2 rings")
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: Bench.session("b1", edge: 2)).count == 1)
  }

  @Test func theOthersRefuseWhileItIsWaitedFor() {
    var bench = registered("b1", "b2")
    lose(&bench, "b1")
    bench.place()
    bench.pass(.seconds(1))
    bench.say(.call(Bench.callID, .busy), device: "b2")
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(4))
    #expect(bench.ends.map(\.reason) == [.busy])
  }

  @Test func theOthersRefuseWhenItIsWaitedForNoMore() {
    var bench = registered("b1", "b2")
    lose(&bench, "b1")
    bench.place()
    bench.pass(.seconds(6))
    bench.say(.call(Bench.callID, .decline(.here)), device: "b2")
    #expect(bench.ends.map(\.reason) == [.declined], "at once")
  }

  @Test func itIsStoppedByACancelWithoutAWord() {
    var bench = registered("b1")
    lose(&bench, "b1")
    bench.place()
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.ends.map(\.reason) == [.cancelled])
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: Bench.session("b1", edge: 2)).isEmpty)
  }

  @Test func whenItBreaksAgainItHasTheGraceOfADeviceThatRang() {
    var bench = registered("b1")
    lose(&bench, "b1")
    bench.place()
    bench.attach("b1", edge: 2)
    bench.say(
      .sessionClosed(graceful: false), device: "b1", session: Bench.session("b1", edge: 2))
    bench.pass(.seconds(14))
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.ends.map(\.reason) == [.unreachable])
  }

  // MARK: A new owner

  private func newOwner(seen: Span, afterLoss: Bool) -> Bench {
    var shard = ShardMachine(shard: 0, epoch: 2, limits: CallLimits())
    let now = Timestamp(microseconds: 1_000_000_000_000_000)
    let at = now + Span(microseconds: -seen.microseconds)
    shard.restore([
      Registration(
        user: UserKey(app: Bench.app, user: "bob"), device: "b1",
        request: RegistrationRequest(), registeredAt: at, seenAt: at)
    ])
    var bench = Bench(shard: shard, now: now)
    bench.run { $0.begin(now: $1, afterLoss: afterLoss, into: &$2) }
    return bench
  }

  @Test("R10: after a crash a new owner waits for registered devices, for the grace only")
  func afterACrash() {
    var bench = newOwner(seen: .seconds(3600), afterLoss: true)
    #expect(bench.place()?.state?.phase == .placed)
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: Bench.session("b1", edge: 2)).count == 1)
    var silent = newOwner(seen: .seconds(3600), afterLoss: true)
    silent.place()
    silent.pass(.seconds(5))
    #expect(silent.ends.map(\.reason) == [.unreachable])
    #expect(
      silent.place(CallID(high: 3, low: 3), user: "carol", device: "c1")?.state?.reason
        == .unreachable, "at once again")
  }

  @Test("R19: a new owner after a hand-over, and devices that nobody saw for long")
  func afterAHandOver() {
    var handedOver = newOwner(seen: .seconds(3600), afterLoss: false)
    #expect(handedOver.place()?.state?.reason == .unreachable)
    var old = newOwner(seen: .seconds(30 * 86_400), afterLoss: true)
    old.place()
    old.pass(.milliseconds(4999))
    #expect(
      old.ends.isEmpty, "after a crash devices that are not registered may be between two edges")
    old.pass(.milliseconds(1))
    #expect(old.ends.map(\.reason) == [.unreachable])
  }

  @Test("R10: the owner dies while a call waits for a device")
  func theOwnerDiesMeanwhile() {
    var bench = registered("b1")
    lose(&bench, "b1")
    bench.place()
    var next = bench.takenOver()
    next.run { $0.begin(now: $1, afterLoss: true, into: &$2) }
    next.caller(.call(Bench.callID, .resume))
    next.attach("b1", edge: 2)
    #expect(next.deliveries(to: Bench.session("b1", edge: 2)).count == 1)
    var silent = bench.takenOver()
    silent.run { $0.begin(now: $1, afterLoss: true, into: &$2) }
    silent.caller(.call(Bench.callID, .resume))
    silent.pass(.seconds(15))
    #expect(silent.ends.map(\.reason) == [.unreachable])
  }
}
