import CallCore
import Testing

/// Both sides have their time to connect from the moment when they could be notified of the answer.
@Suite struct ConnectTimeTests {
  /// Bob's phone has answered. Default: 15 s to connect.
  private func answered() -> Bench {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.say(.call(Bench.callID, .answer(description: "answer")), device: "b1")
    return bench
  }

  private func pass(_ bench: inout Bench, _ seconds: Int, heldBack: Bool) {
    for _ in 0..<seconds {
      bench.now = bench.now + .seconds(1)
      bench.run { $0.fire(now: $1, isHeldBack: heldBack, into: &$2) }
    }
  }

  @Test func whileTheJournalIsStuckNoCallFailsToConnect() {
    var bench = answered()
    pass(&bench, 40, heldBack: true)
    #expect(bench.ends.isEmpty)
    bench.run { shard, now, _ in shard.wasHeldBack(now: now) }
    pass(&bench, 14, heldBack: false)
    #expect(bench.ends.isEmpty)
    bench.caller(.call(Bench.callID, .connected))
    bench.say(.call(Bench.callID, .connected), device: "b1")
    pass(&bench, 60, heldBack: false)
    #expect(bench.ends.isEmpty)
  }

  @Test func theJournalTookTheAnswerShortlyBeforeTheDeadline() {
    var bench = answered()
    bench.now = bench.now + .milliseconds(14_900)
    bench.run { shard, now, _ in shard.wasHeldBack(now: now) }
    pass(&bench, 14, heldBack: false)
    #expect(bench.ends.isEmpty)
    pass(&bench, 2, heldBack: false)
    #expect(bench.ends.map(\.reason) == [.failed])
  }

  @Test func whoHasConnectedNeedsNoTime() {
    var bench = answered()
    bench.caller(.call(Bench.callID, .connected))
    bench.say(.call(Bench.callID, .connected), device: "b1")
    bench.run { shard, now, _ in shard.wasHeldBack(now: now) }
    pass(&bench, 60, heldBack: false)
    #expect(bench.ends.isEmpty)
  }

  @Test func aNewOwnerTellsOfTheAnswerAndTheTimeBeginsAnew() {
    var bench = answered()
    bench.now = bench.now + .seconds(30)
    bench = bench.takenOver()
    bench.say(.attach(Attach(announce: true)), device: "b1")
    bench.run { $0.begin(now: $1, into: &$2) }
    bench.pass(.seconds(14))
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(2))
    #expect(bench.ends.map(\.reason) == [.failed])
  }

  @Test func aCallerWhoseTimeRanOutWhileTheJournalWasStuckMayStillComeBack() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    bench.caller(.callerGone([Bench.callID]))
    pass(&bench, 20, heldBack: true)
    #expect(bench.ends.isEmpty, "its 15 s are over")
    bench.run { shard, now, _ in shard.wasHeldBack(now: now) }
    pass(&bench, 4, heldBack: false)
    #expect(bench.ends.isEmpty)
    pass(&bench, 2, heldBack: false)
    #expect(bench.ends.map(\.reason) == [.cancelled])
  }

  @Test func inTimeIsInTimeStill() {
    var bench = answered()
    bench.pass(.milliseconds(14_900))
    #expect(bench.ends.isEmpty)
    bench.pass(.milliseconds(200))
    #expect(bench.ends.map(\.reason) == [.failed])
  }
}
