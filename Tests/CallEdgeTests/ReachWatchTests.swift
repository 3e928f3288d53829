import CallCore
import CallEdge
import CallWire
import Testing

@Suite struct ReachWatchTests {
  private let start = Timestamp(microseconds: 1_000_000_000)
  private var watch: ReachWatch { ReachWatch(limit: .seconds(8), now: start) }

  private func at(_ seconds: Int64) -> Timestamp { start + .seconds(seconds) }

  /// Asks every two seconds. The edge is not cut off then, or only with the last question.
  private func ask(
    _ watch: inout ReachWatch, _ seconds: ClosedRange<Int64>, endsCutOff: Bool = false,
    _ location: SourceLocation = #_sourceLocation
  ) {
    for second in stride(from: seconds.lowerBound, through: seconds.upperBound, by: 2) {
      let isDue = watch.isDue(now: at(second))
      let isCutOff = endsCutOff && second == seconds.upperBound
      #expect(isDue && watch.isCutOff == isCutOff, "\(second)", sourceLocation: location)
    }
  }

  @Test func asksAtItsIntervalAndNotBefore() {
    var watch = watch
    let due = [0, 1, 2].map { watch.isDue(now: at($0)) }
    #expect(due == [true, false, true])
  }

  @Test func silenceForLongerThanItsLimitIsACutOff() {
    var watch = watch
    ask(&watch, 0...8, endsCutOff: true)
    // One answer ends it.
    watch.answered(now: at(9))
    #expect(!watch.isCutOff)
    ask(&watch, 10...10)
  }

  /// NATS was away for some seconds: what was asked meanwhile is lost, and the next question is due.
  @Test func afterANewConnectionTheTimeCountsAnew() {
    var watch = watch
    ask(&watch, 0...6)
    watch.reconnected(now: at(7))
    ask(&watch, 7...15, endsCutOff: true)
    // A connection alone proves nothing.
    watch.reconnected(now: at(16))
    #expect(watch.isCutOff)
    watch.answered(now: at(17))
    #expect(!watch.isCutOff)
  }

  @Test func aConnectionThatBreaksAgainAndAgainHidesNothing() {
    var watch = watch
    for seconds in Int64(0)...14 {
      if seconds % 3 == 2 { watch.reconnected(now: at(seconds)) }
      _ = watch.isDue(now: at(seconds))
    }
    #expect(watch.isCutOff)
  }

  @Test func aShardWithoutAnOwnerProvesNothing() {
    var watch = watch
    for seconds in stride(from: Int64(0), to: 60, by: 6) {
      ask(&watch, seconds...(seconds + 4))
      // Every third question finds somebody.
      watch.answered(now: at(seconds + 4))
    }
  }

  @Test func afterAPauseOfItsOwnItAsksAgainBeforeItJudges() {
    var watch = watch
    ask(&watch, 0...6)
    ask(&watch, 600...608, endsCutOff: true)
  }
}

/// An edge that no shard answers any longer. It has sockets, it even has its connection to the bus.
@Suite struct EdgeCutOffTests {
  @Test(.edge { $0.cutOffAfter = .milliseconds(400) }, .timeLimit(.minutes(1)))
  func itsDevicesAreToldToTryElsewhereAndMayStay() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    edge.shards.follow { _ in nil }
    #expect(try await client.notice().kind == .goAway)
    #expect(edge.node.readiness.missing.first == "the cluster does not answer the edge")

    // The cluster is back: the device that stayed is served, and others may come.
    edge.shards.follow(FakeShards.agreeing)
    while edge.node.readiness.missing.first?.contains("does not answer") == true {
      await Task.yield()
    }
    try await client.ask(2, .call(CallAddress(call: CallID(high: 1, low: 2)), .query))
    _ = try await edge.device("bob", "phone")
  }
}
