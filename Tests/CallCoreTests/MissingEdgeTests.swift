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

  @Test("R11: a call placed while the edge is silent rings when it is back")
  func comesBackAndRings() {
    var bench = silent()
    bench.pass(.seconds(10))
    #expect(bench.place()?.state?.phase == .placed)
    bench.pass(.seconds(4))
    #expect(bench.ends.isEmpty)
    announce(&bench, "b1")
    announced(&bench, edge)
    #expect(bench.invites("b1").count == 1)
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty, "it rings like any other")
    #expect(bench.say(.call(Bench.callID, .answer(description: "")), device: "b1")?.won == true)
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

  @Test(
    "R11: the edge closed the device's socket when it was back: it attaches elsewhere and rings")
  func comesBackWithoutTheDevice() {
    var bench = silent()
    bench.pass(.seconds(20))
    announced(&bench, edge)
    #expect(bench.place()?.state?.phase == .placed)
    bench.pass(.seconds(4))
    #expect(bench.ends.isEmpty)
    bench.attach("b1", edge: 2)
    #expect(bench.deliveries(to: Bench.session("b1", edge: 2)).count == 1)
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty, "it rings like any other")
  }

  @Test("R19: every edge has announced its sessions, and the time to come back is over")
  func nobodyIsThere() {
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
    #expect(
      bench.place(CallID(high: 3, low: 3), user: "carol", device: "c1")?.state?.reason
        == .unreachable, "at once again")
  }

  @Test("R19: the edge does not come back: unreachable after the grace, later at once")
  func doesNotComeBack() {
    var bench = silent()
    bench.place()
    bench.pass(.milliseconds(4999))
    #expect(bench.ends.isEmpty)
    bench.pass(.milliseconds(1))
    #expect(bench.ends.map(\.reason) == [.unreachable])
    bench.pass(.seconds(71))
    #expect(
      bench.place(CallID(high: 3, low: 3), user: "carol", device: "c1")?.state?.reason
        == .unreachable)
  }

  @Test("R19: an edge that said that it goes is not waited for")
  func goneForGood() {
    var bench = Bench()
    bench.attach("b1", edge: edge)
    bench.run { shard, now, outcome in
      shard.edgeMissing(edge, until: now, now: now)
      shard.edgeLost(edge, now: now, into: &outcome)
    }
    #expect(bench.place()?.state?.reason == .unreachable)
  }

  @Test("R11: a device on another edge leaves: the silent one's may still ring")
  func oneLeavesMeanwhile() {
    var bench = silent()
    bench.attach("b2", edge: 2)
    bench.place()
    bench.say(.sessionClosed(graceful: true), device: "b2", session: Bench.session("b2", edge: 2))
    #expect(bench.ends.isEmpty)
    announce(&bench, "b1")
    announced(&bench, edge)
    #expect(bench.invites("b1").count == 1)
  }

  @Test("R11: where the last known device refuses, the caller is told at once")
  func oneDeclinesMeanwhile() {
    var bench = silent()
    bench.attach("b2", edge: 2)
    bench.place()
    bench.say(
      .call(Bench.callID, .decline(.here)), device: "b2", session: Bench.session("b2", edge: 2))
    #expect(bench.ends.map(\.reason) == [.declined])
  }

  @Test("R2: busy is known at once, whichever edge is missing")
  func busyAtOnce() {
    var limits = CallLimits()
    limits.liveCallsPerDevice = 1
    var bench = silent(limits)
    bench.attach("b2", edge: 2)
    bench.place()
    #expect(
      bench.place(CallID(high: 3, low: 3), user: "carol", device: "c1")?.state?.reason == .busy)
  }

  @Test("R10: the owner dies while a call waits for an edge")
  func theOwnerDiesMeanwhile() {
    var bench = silent()
    bench.place()
    var next = bench.takenOver()
    next.run { shard, now, outcome in
      shard.edgeMissing(edge, until: now + .seconds(60), now: now)
      shard.begin(now: now, afterLoss: true, into: &outcome)
    }
    next.caller(.call(Bench.callID, .resume))
    #expect(next.ends.isEmpty)
    announce(&next, "b1")
    announced(&next, edge)
    #expect(next.invites("b1").count == 1)
    next.pass(.seconds(20))
    #expect(next.ends.isEmpty)
  }

  @Test("R10: after a crash devices without a registration may be between two edges, too")
  func betweenTwoEdges() {
    var bench = Bench()
    bench.attach("b1", edge: edge)
    var next = bench.takenOver()
    next.run { $0.begin(now: $1, afterLoss: true, into: &$2) }
    #expect(next.place()?.state?.phase == .placed)
    next.attach("b1", edge: 2)
    #expect(next.deliveries(to: Bench.session("b1", edge: 2)).count == 1)
    next.pass(.seconds(6))
    #expect(next.ends.isEmpty)
  }
}
