import CallCore
import Testing

/// A device between two sockets when it is called: it is waited for, a little.
@Suite struct ReattachTests {
  private func registered(_ devices: String..., limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    for device in devices {
      bench.attach(device)
      bench.enrol(device)
    }
    _ = bench.take()
    return bench
  }

  /// Alice calls bob, whose b1 has just lost its session; beside it b2 rings.
  private func waiting(beside hasOther: Bool = false) -> Bench {
    var bench = hasOther ? registered("b1", "b2") : registered("b1")
    bench.close("b1")
    bench.place()
    return bench
  }

  private let back = Bench.session("b1", edge: 2)

  @Test("R11: its edge died just before: it attaches elsewhere and rings")
  func comesBackAndRings() {
    var bench = registered("b1")
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    bench.pass(.seconds(2))
    #expect(bench.place()?.state?.phase == .placed)
    bench.pass(.seconds(2))
    #expect(bench.ends.isEmpty)
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: back).count == 1)
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty, "it rings like any other")
    #expect(bench.answer("b1", session: back)?.won == true)
  }

  /// Seed 96002832: an edge stood still for longer than a stop's attempts take. Its sessions went on afterwards, so nothing
  /// was sent again, and the phone rang on.
  @Test("R10, R16: after all attempts a session gets once more what it lacks")
  func allAttemptsAreOver() {
    var bench = Bench.ringing("b1")
    bench.acknowledgeAll()
    bench.caller(.cancel)
    bench.pass(.seconds(20))
    #expect(bench.stops("b1").count == 5)
    bench.pass(.seconds(60))
    #expect(bench.stops("b1").count == 5)
    for attempts in 6...7 {
      bench.announce("b1")
      #expect(bench.stops("b1").count == attempts)
      bench.pass(.seconds(20))
      #expect(bench.stops("b1").count == attempts, "one each time")
    }
    bench.acknowledgeAll()
    bench.announce("b1")
    #expect(bench.stops("b1").count == 7)
  }

  @Test("R10: so is the caller's device") func allAttemptsToTheCallerAreOver() {
    var bench = Bench.ringing("b1")
    bench.say(.alerting, "b1")
    bench.pass(.seconds(20))
    #expect(bench.deliveries(to: "alice1").count == 5)
    bench.caller(.resume)
    #expect(bench.deliveries(to: "alice1").count == 6)
  }

  @Test("R19: it does not come back: unreachable after the grace") func doesNotComeBack() {
    var bench = registered("b1")
    bench.close("b1")
    bench.pass(.seconds(3))
    #expect(bench.place()?.state?.phase == .placed)
    bench.endsAfter(.seconds(2), .unreachable)
    #expect(bench.ends.first?.missed == true)
    #expect(bench.stops("alice1").map(\.reason) == [.unreachable])
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: back).isEmpty, "it never rang, so there is nothing to stop")
  }

  @Test("R19: who is long away, left or is not registered is not waited for")
  func nobodyToWaitFor() {
    var gone = registered("b1")
    gone.close("b1")
    gone.pass(.seconds(5))
    var left = registered("b1")
    left.close("b1", graceful: true)
    var stranger = Bench()
    stranger.attach("b1")
    stranger.close("b1")
    var off = registered("b1", limits: .with { $0.reattachGrace = .seconds(0) })
    off.close("b1")
    for var bench in [gone, left, stranger, off] {
      #expect(bench.place()?.state?.reason == .unreachable)
    }
  }

  @Test func othersRingMeanwhileAndItMayJoin() {
    var bench = waiting(beside: true)
    #expect(bench.invites("b2").count == 1)
    bench.acknowledgeAll()
    bench.pass(.seconds(10))
    #expect(bench.ends.isEmpty, "b2 rings")
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: back).count == 1)
  }

  @Test("the others refuse while it is waited for, and later: at once") func theOthersRefuse() {
    var bench = waiting(beside: true)
    var later = bench
    bench.pass(.seconds(1))
    bench.say(.busy, "b2")
    bench.endsAfter(.seconds(4), .busy)
    later.pass(.seconds(6))
    later.say(.decline(.here), "b2")
    #expect(later.ends.map(\.reason) == [.declined])
  }

  @Test func itIsStoppedByACancelWithoutAWord() {
    var bench = waiting()
    bench.caller(.cancel)
    #expect(bench.ends.map(\.reason) == [.cancelled])
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: back).isEmpty)
  }

  @Test func whenItBreaksAgainItHasTheGraceOfADeviceThatRang() {
    var bench = waiting()
    bench.attach("b1", edge: 2)
    bench.close("b1", session: back)
    bench.endsAfter(.seconds(15), .unreachable)
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

  @Test("R10: after a crash a new owner waits for registered devices") func afterACrash() {
    var bench = newOwner(seen: .seconds(3600), afterLoss: true)
    var silent = bench
    #expect(bench.place()?.state?.phase == .placed)
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: back).count == 1)
    silent.place()
    silent.pass(.seconds(5))
    #expect(silent.ends.map(\.reason) == [.unreachable])
    let next = silent.place(CallID(high: 3, low: 3), user: "carol", device: "c1")
    #expect(next?.state?.reason == .unreachable, "at once again")
  }

  @Test("R19: a new owner after a hand-over, and devices long unseen") func afterAHandOver() {
    var handedOver = newOwner(seen: .seconds(3600), afterLoss: false)
    #expect(handedOver.place()?.state?.reason == .unreachable)
    var old = newOwner(seen: .seconds(30 * 86_400), afterLoss: true)
    old.place()
    // After a crash devices that are not registered may be between two edges.
    old.endsAfter(.seconds(5), .unreachable)
  }

  @Test("R10: the owner dies while a call waits for a device", arguments: [true, false])
  func theOwnerDiesMeanwhile(comesBack: Bool) {
    var next = waiting().takenOver()
    next.run { $0.begin(now: $1, afterLoss: true, into: &$2) }
    next.caller(.resume)
    if comesBack {
      next.attach("b1", edge: 2)
      #expect(next.deliveries(to: back).count == 1)
    } else {
      next.pass(.seconds(15))
      #expect(next.ends.map(\.reason) == [.unreachable])
    }
  }

  // MARK: Earlier sessions of the caller's device

  private let former = Bench.session("alice1")
  private let present = Bench.session("alice1", 1, edge: 2)

  /// Alice's phone, or its edge, says where it is.
  private func resume(
    _ bench: inout Bench, _ session: SessionRef, attached seconds: Int64?, number: UInt64? = nil
  ) {
    bench.say(
      .call(Bench.callID, .resume), user: "alice", device: "alice1", session: session,
      number: number, attachedAt: Timestamp(microseconds: (seconds ?? 0) * 1_000_000))
  }

  /// The former session breaks, and b1 answers after the grace.
  private func breakFormer(_ bench: inout Bench) {
    bench.caller(.callerGone([Bench.callID]), session: former)
    bench.pass(.seconds(20))
    bench.answer("b1")
  }

  @Test(
    "R10: a new owner is told of two sessions of the caller's device: the later one has the call")
  func formerSessionIsAnnounced() {
    for order in [[1, 2], [2, 1]] as [[Int64]] {
      var next = Bench.ringing("b1").takenOver()
      next.announce("b1")
      for attached in order {
        resume(&next, attached == 1 ? former : present, attached: attached, number: 0)
      }
      next.begin()
      breakFormer(&next)
      #expect(next.ends.isEmpty)
      #expect(next.deliveries(to: present).map(\.event.kind) == ["answered"])
    }
  }

  @Test("R9: a place comes late from a former session on the same edge") func formerSessionPlaces()
  {
    var bench = Bench.ringing("b1")
    let again = Bench.session("alice1", 1)
    resume(&bench, again, attached: 2)
    bench.say(
      .place(PlaceRequest(call: Bench.callID, ringTimeoutSeconds: 0, description: "offer")),
      user: "alice", device: "alice1", attachedAt: Timestamp(microseconds: 1_000_000))
    breakFormer(&bench)
    #expect(bench.ends.isEmpty)
    #expect(bench.deliveries(to: again).map(\.event.kind) == ["answered"])
  }

  @Test("the device's own word counts whatever the clocks of edges say, and so do unknown times")
  func clocksOfEdgesDiffer() {
    for (number, attached) in [(nil, 1), (0, nil)] as [(UInt64?, Int64?)] {
      var bench = Bench.ringing("b1")
      resume(&bench, former, attached: 2)
      resume(&bench, present, attached: attached, number: number)
      breakFormer(&bench)
      #expect(bench.ends.isEmpty)
      #expect(bench.deliveries(to: present).map(\.event.kind) == ["answered"])
    }
  }
}
