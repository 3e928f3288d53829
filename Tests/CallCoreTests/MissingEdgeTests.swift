import CallCore
import Testing

/// An edge is silent, or came back and has not announced its sessions. The shard does not know who is attached, and no
/// user is unreachable at once.
@Suite struct MissingEdgeTests {
  private let edge: UInt64 = 1

  /// Bob's phone is attached, not registered; its edge falls silent and is counted lost.
  private func silent(_ limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    bench.attach("b1", edge: edge)
    lose(&bench, edge)
    _ = bench.take()
    return bench
  }

  private func lose(_ bench: inout Bench, _ edge: UInt64) {
    bench.run { shard, now, outcome in
      shard.edgeMissing(edge, until: now + .seconds(75), now: now)
      shard.edgeLost(edge, now: now, into: &outcome)
    }
  }

  private func announce(_ bench: inout Bench, _ device: String) {
    bench.say(
      .attach(Attach(deviceName: "Bob's \(device)", announce: true, attachedAt: bench.now)),
      device: device, session: Bench.session(device, edge: edge))
  }

  private func announced(_ bench: inout Bench, _ edge: UInt64) {
    bench.run { shard, now, _ in shard.edgeAnnounced(edge, now: now) }
  }

  @Test(
    "R11: a call placed while the edge is silent rings when it is back, or its device elsewhere",
    arguments: [true, false])
  func comesBackAndRings(withTheDevice: Bool) {
    var bench = silent()
    bench.pass(.seconds(10))
    // The edge has closed the device's socket.
    if !withTheDevice { announced(&bench, edge) }
    #expect(bench.place()?.state?.phase == .placed)
    bench.pass(.seconds(4))
    #expect(bench.ends.isEmpty)
    if withTheDevice {
      announce(&bench, "b1")
      announced(&bench, edge)
    } else {
      bench.attach("b1", edge: 2)
    }
    let session = Bench.session("b1", edge: withTheDevice ? edge : 2)
    #expect(bench.deliveries(to: session).map(\.event.kind) == ["invite"])
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty, "it rings like any other")
    #expect(bench.answer("b1", session: session)?.won == true)
  }

  @Test("R11: the place comes with the edge's first message, before its sessions are announced")
  func placedBeforeTheAnnouncement() {
    var bench = Bench()
    bench.run { shard, now, _ in shard.edgeMissing(edge, until: now + .seconds(75), now: now) }
    #expect(bench.place()?.state?.phase == .placed)
    announce(&bench, "b1")
    announced(&bench, edge)
    #expect(bench.invites("b1").count == 1)
    #expect(bench.ends.isEmpty)
  }

  @Test("R19: all edges have announced, and the time to come back is over") func nobodyIsThere() {
    var bench = silent()
    lose(&bench, 2)
    bench.pass(.seconds(1))
    announced(&bench, edge)
    announced(&bench, 2)
    bench.place()
    bench.pass(.milliseconds(4900))
    announced(&bench, edge)
    #expect(bench.ends.isEmpty)
    bench.pass(.milliseconds(100))
    #expect(bench.ends.map(\.reason) == [.unreachable])
    #expect(callAgain(&bench) == .unreachable, "at once again")
  }

  /// Carol calls bob after alice.
  private func callAgain(_ bench: inout Bench) -> EndReason? {
    bench.place(CallID(high: 3, low: 3), user: "carol", device: "c1")?.state?.reason
  }

  @Test("R19: the edge stays away: unreachable after the grace, then at once")
  func doesNotComeBack() {
    var bench = silent()
    bench.place()
    bench.endsAfter(.seconds(5), .unreachable)
    bench.pass(.seconds(71))
    #expect(callAgain(&bench) == .unreachable)
  }

  @Test("R19: an edge that said that it goes is not waited for") func goneForGood() {
    var bench = Bench()
    bench.attach("b1", edge: edge)
    bench.run { shard, now, outcome in
      shard.edgeMissing(edge, until: now, now: now)
      shard.edgeLost(edge, now: now, into: &outcome)
    }
    #expect(bench.place()?.state?.reason == .unreachable)
  }

  @Test("R11: a device elsewhere leaves: the silent edge's may still ring")
  func oneLeavesMeanwhile() {
    var bench = ringingElsewhere()
    bench.close("b2", graceful: true, session: elsewhere)
    #expect(bench.ends.isEmpty)
    announce(&bench, "b1")
    announced(&bench, edge)
    #expect(bench.invites("b1").count == 1)
  }

  @Test("R11: the last known device refuses: the caller is told at once")
  func oneDeclinesMeanwhile() {
    var bench = ringingElsewhere()
    bench.say(.decline(.here), "b2", session: elsewhere)
    #expect(bench.ends.map(\.reason) == [.declined])
  }

  private let elsewhere = Bench.session("b2", edge: 2)

  /// Alice calls bob, whose b2 is on another edge than the silent one.
  private func ringingElsewhere(_ limits: CallLimits = CallLimits()) -> Bench {
    var bench = silent(limits)
    bench.attach("b2", edge: 2)
    bench.place()
    return bench
  }

  @Test("R2: busy is known at once, whichever edge is missing") func busyAtOnce() {
    var bench = ringingElsewhere(.with { $0.liveCallsPerDevice = 1 })
    #expect(callAgain(&bench) == .busy)
  }

  @Test("R10: the owner dies while a call waits for an edge") func theOwnerDiesMeanwhile() {
    var bench = silent()
    bench.place()
    var next = bench.takenOver()
    next.run { shard, now, outcome in
      shard.edgeMissing(edge, until: now + .seconds(60), now: now)
      shard.begin(now: now, afterLoss: true, into: &outcome)
    }
    next.caller(.resume)
    #expect(next.ends.isEmpty)
    announce(&next, "b1")
    announced(&next, edge)
    #expect(next.invites("b1").count == 1)
    next.pass(.seconds(20))
    #expect(next.ends.isEmpty)
  }

  @Test("R10: after a crash devices without registration may be between edges")
  func betweenTwoEdges() {
    var bench = Bench()
    bench.attach("b1", edge: edge)
    var next = bench.takenOver()
    next.run { $0.begin(now: $1, afterLoss: true, into: &$2) }
    #expect(next.place()?.state?.phase == .placed)
    next.attach("b1", edge: 2)
    #expect(next.deliveries(to: "b1", edge: 2).count == 1)
    next.pass(.seconds(6))
    #expect(next.ends.isEmpty)
  }
}
