import CallCore
import Testing

/// An attach that was under way through an outage replaces the session that a device still uses, and ends at
/// once: a call to its user waits for it.
@Suite struct BrokenSessionsTests {
  /// Bob's phone, not registered, has a session with edge 1; one with edge 2 replaces it and ends after a time.
  private func broken(graceful: Bool = false, after pause: Span = .seconds(0)) -> Bench {
    var bench = Bench()
    bench.attach("b1", edge: 1)
    let session = Bench.session("b1", edge: 2)
    bench.say(.attach(Attach(attachedAt: bench.now)), device: "b1", session: session)
    if pause > .seconds(0) { bench.pass(pause) }
    bench.say(.sessionClosed(graceful: graceful), device: "b1", session: session)
    _ = bench.take()
    return bench
  }

  @Test("R19: who comes back in time rings") func comesBack() {
    var bench = broken()
    bench.pass(.seconds(1))
    #expect(bench.place()?.state?.phase == .placed)
    bench.pass(.seconds(1))
    bench.attach("b1")
    #expect(bench.invites("b1").count == 1)
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(20))
    #expect(bench.ends.isEmpty, "it rings like any other")
  }

  @Test func whoDoesNotComeBackIsUnreachableWhenTheTimeIsOver() {
    var bench = broken()
    bench.pass(.seconds(2))
    #expect(bench.place()?.state?.phase == .placed)
    bench.pass(.milliseconds(2900))
    #expect(bench.ends.isEmpty)
    bench.pass(.milliseconds(200))
    #expect(bench.ends.map(\.reason) == [.unreachable])
  }

  @Test("who took its leave, or is over its time, is not waited for", arguments: [true, false])
  func notWaitedFor(graceful: Bool) {
    var bench = broken(graceful: graceful)
    if !graceful { bench.pass(.seconds(5)) }
    #expect(bench.place()?.state?.reason == .unreachable)
  }

  @Test("R19: a session that replaced none, or long ago, is gone when it breaks")
  func whoseOnlySessionBreaksIsUnreachableAtOnce() {
    var bench = Bench.attached("b1")
    bench.say(.sessionClosed(graceful: false), device: "b1")
    #expect(bench.place()?.state?.reason == .unreachable)
    bench = broken(after: .seconds(5))
    #expect(bench.place()?.state?.reason == .unreachable)
  }

  @Test func anEdgeThatAnnouncesEndsNoCallThatWaitsForABrokenSession() {
    var bench = broken()
    bench.run { shard, now, _ in shard.edgeMissing(3, until: now + .seconds(75), now: now) }
    #expect(bench.place()?.state?.phase == .placed)
    bench.run { shard, now, _ in shard.edgeAnnounced(3, now: now) }
    #expect(bench.ends.isEmpty)
    bench.attach("b1", edge: 1)
    #expect(bench.invites("b1").count == 1)
  }

  @Test("R11: a new owner is told of the later session first; that one breaks")
  func announcedInTheOtherOrder() {
    var bench = Bench()
    let later = Bench.session("b1", edge: 2)
    bench.say(.attach(Attach(attachedAt: bench.now)), device: "b1", session: later)
    let before = bench.now + Span(microseconds: -3_000_000)
    bench.say(.attach(Attach(announce: true, attachedAt: before)), device: "b1")
    bench.say(.sessionClosed(graceful: false), device: "b1", session: later)
    _ = bench.take()
    #expect(bench.place()?.state?.phase == .placed)
    bench.attach("b1", edge: 1)
    #expect(bench.invites("b1").count == 1)
  }

  @Test func thoseWhoseTimeIsOverAreNotKept() {
    var sessions = BrokenSessions()
    for number in 0..<10_000 {
      let user = UserKey(app: "demo", user: "u\(number)")
      let now = Timestamp(microseconds: Int64(number) * 50_000)
      sessions.note(user, at: now, grace: .seconds(5))
    }
    // One each 50 ms: 100 are awaited at any time.
    #expect(sessions.count <= 256)
  }
}
