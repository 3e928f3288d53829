import CallBus
import CallCore
import CallEdge
import CallWire
import Testing

@Suite struct ReachWatchTests {
  private let start = Timestamp(microseconds: 1_000_000_000)
  private var watch: ReachWatch { ReachWatch(limit: .seconds(8), now: start) }

  private func at(_ seconds: Int64) -> Timestamp { start + .seconds(seconds) }

  private func asks(_ expected: Bool, _ due: Bool) { #expect(due == expected) }

  @Test func asksAtItsIntervalAndNotBefore() {
    var watch = watch
    asks(true, watch.isDue(now: at(0)))
    asks(false, watch.isDue(now: at(1)))
    asks(true, watch.isDue(now: at(2)))
  }

  @Test func silenceForLongerThanItsLimitIsACutOff() {
    var watch = watch
    for seconds in stride(from: Int64(0), to: 8, by: 2) {
      asks(true, watch.isDue(now: at(seconds)))
      #expect(!watch.isCutOff)
    }
    asks(true, watch.isDue(now: at(8)))
    #expect(watch.isCutOff)
  }

  /// NATS was away for some seconds: what was asked meanwhile is lost, and the next question is due.
  @Test func afterANewConnectionTheTimeCountsAnew() {
    var watch = watch
    for seconds in stride(from: Int64(0), through: 6, by: 2) { _ = watch.isDue(now: at(seconds)) }
    watch.reconnected(now: at(7))
    asks(true, watch.isDue(now: at(7)))
    for seconds in stride(from: Int64(9), to: 15, by: 2) {
      asks(true, watch.isDue(now: at(seconds)))
      #expect(!watch.isCutOff)
    }
    asks(true, watch.isDue(now: at(15)))
    #expect(watch.isCutOff)
    // A connection alone proves nothing.
    watch.reconnected(now: at(16))
    #expect(watch.isCutOff)
    watch.answered(now: at(17))
    #expect(!watch.isCutOff)
  }

  @Test func aConnectionThatBreaksAgainAndAgainHidesNothing() {
    var watch = watch
    for seconds in stride(from: Int64(0), through: 14, by: 1) {
      if seconds % 3 == 2 { watch.reconnected(now: at(seconds)) }
      _ = watch.isDue(now: at(seconds))
    }
    #expect(watch.isCutOff)
  }

  @Test func oneAnswerEndsIt() {
    var watch = watch
    for seconds in stride(from: Int64(0), through: 8, by: 2) { _ = watch.isDue(now: at(seconds)) }
    watch.answered(now: at(9))
    #expect(!watch.isCutOff)
    _ = watch.isDue(now: at(10))
    #expect(!watch.isCutOff)
  }

  @Test func aShardWithoutAnOwnerProvesNothing() {
    var watch = watch
    for seconds in stride(from: Int64(0), to: 60, by: 2) {
      _ = watch.isDue(now: at(seconds))
      // Every third question finds somebody.
      if seconds % 6 == 4 { watch.answered(now: at(seconds)) }
      #expect(!watch.isCutOff)
    }
  }

  @Test func afterAPauseOfItsOwnItAsksAgainBeforeItJudges() {
    var watch = watch
    for seconds in stride(from: Int64(0), to: 8, by: 2) { _ = watch.isDue(now: at(seconds)) }
    asks(true, watch.isDue(now: at(600)))
    #expect(!watch.isCutOff)
    for seconds in stride(from: Int64(602), to: 608, by: 2) {
      _ = watch.isDue(now: at(seconds))
      #expect(!watch.isCutOff)
    }
    _ = watch.isDue(now: at(608))
    #expect(watch.isCutOff)
  }
}

/// An edge that no shard answers any longer. It has sockets, it even has its connection to the bus.
@Suite struct EdgeCutOffTests {
  @Test(.timeLimit(.minutes(1)))
  func itsDevicesAreToldToTryElsewhereAndMayStay() async throws {
    try await EdgeFixture.run {
      $0.cutOffAfter = .milliseconds(400)
    } _: { edge in
      let (client, _) = try await edge.device("ann", "phone")
      edge.shards.follow { _ in nil }
      while true {
        if case .notice(let notice) = try await client.message() {
          #expect(notice.kind == .goAway)
          break
        }
      }
      #expect(edge.node.readiness.missing.first == "the cluster does not answer the edge")

      // The cluster is back: the device that stayed is served, and others may come.
      edge.shards.follow(FakeShards.agreeing)
      while edge.node.readiness.missing.first?.contains("does not answer") == true {
        await Task.yield()
      }
      client.say(2, .call(CallAddress(call: CallID(high: 1, low: 2)), .query))
      #expect(try await client.reply().id == 2)
      _ = try await edge.device("bob", "phone")
    }
  }
}
