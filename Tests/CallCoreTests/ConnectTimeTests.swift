import CallCore
import Testing

/// Both sides have their time to connect from the moment when they could be notified of the answer.
@Suite struct ConnectTimeTests {
  /// Bob's phone has answered. Default: 15 s to connect.
  private func answered() -> Bench {
    var bench = Bench.ringing("b1")
    bench.say(.answer(description: "answer"), "b1")
    return bench
  }

  private func pass(_ bench: inout Bench, _ seconds: Int, heldBack: Bool = false) {
    for _ in 0..<seconds {
      bench.now = bench.now + .seconds(1)
      bench.run { $0.fire(now: $1, isHeldBack: heldBack, into: &$2) }
    }
  }

  /// The journal takes what it was held back from.
  private func release(_ bench: inout Bench) {
    bench.run { shard, now, _ in shard.wasHeldBack(now: now) }
  }

  @Test func inTimeIsInTimeStill() {
    var bench = answered()
    bench.pass(.milliseconds(14_900))
    #expect(bench.ends.isEmpty)
    bench.pass(.milliseconds(200))
    #expect(bench.ends.map(\.reason) == [.failed])
  }

  @Test func whileTheJournalIsStuckNoCallFailsToConnect() {
    var bench = answered()
    pass(&bench, 40, heldBack: true)
    #expect(bench.ends.isEmpty)
    release(&bench)
    pass(&bench, 14)
    #expect(bench.ends.isEmpty)
    bench.caller(.connected)
    bench.say(.connected, "b1")
    pass(&bench, 60)
    #expect(bench.ends.isEmpty)
  }

  @Test func theJournalTookTheAnswerShortlyBeforeTheDeadline() {
    var bench = answered()
    bench.now = bench.now + .milliseconds(14_900)
    release(&bench)
    pass(&bench, 14)
    #expect(bench.ends.isEmpty)
    pass(&bench, 2)
    #expect(bench.ends.map(\.reason) == [.failed])
  }

  @Test func whoHasConnectedNeedsNoTime() {
    var bench = answered()
    bench.caller(.connected)
    bench.say(.connected, "b1")
    release(&bench)
    pass(&bench, 60)
    #expect(bench.ends.isEmpty)
  }

  @Test func aNewOwnerTellsOfTheAnswerAndTheTimeBeginsAnew() {
    var bench = answered()
    bench.now = bench.now + .seconds(30)
    bench = bench.takenOver().begun(announcing: "b1")
    bench.pass(.seconds(14))
    #expect(bench.ends.isEmpty)
    bench.pass(.seconds(2))
    #expect(bench.ends.map(\.reason) == [.failed])
  }

  @Test func aCallerWhoseTimeRanOutWhileTheJournalWasStuckMayStillComeBack() {
    var bench = Bench.ringing("b1")
    bench.caller(.callerGone([Bench.callID]))
    pass(&bench, 20, heldBack: true)
    #expect(bench.ends.isEmpty, "its 15 s are over")
    release(&bench)
    pass(&bench, 4)
    #expect(bench.ends.isEmpty)
    pass(&bench, 2)
    #expect(bench.ends.map(\.reason) == [.cancelled])
  }
}
