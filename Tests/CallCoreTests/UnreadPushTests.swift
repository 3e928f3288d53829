import CallCore
import Testing

/// The number of unread missed calls in a push.
@Suite struct UnreadPushTests {
  private let placed = PlacedCall(Bench.callID, placedAt: Bench().now)

  /// b1 sleeps and shows notices; it misses a call.
  private func missed(subscriptions: Subscriptions = .history, keeps: StoredParts = .history)
    -> Bench
  {
    var bench = HistoryTests.bench(keeps: keeps)
    bench.enrol("b1", alert: "a1")
    HistoryTests.place(&bench, subscriptions: subscriptions)
    return bench
  }

  private func question(_ purpose: PushPurpose, _ bench: Bench) throws -> UnreadQuestion? {
    let job = try #require(bench.pushes.first { $0.purpose == purpose })
    #expect(job.unread == nil)
    return bench.shard.unreadQuestion(of: job)
  }

  @Test func theCallJustMissedCountsUntilTheStoreHasIt() throws {
    var bench = missed()
    #expect(
      try question(.missedNotice, bench)
        == UnreadQuestion(user: HistoryTests.bob, missed: [placed]))
    let second = CallID(high: 7, low: 7)
    bench.pass(.seconds(1))
    HistoryTests.place(&bench, second)
    let both = [placed, PlacedCall(second, placedAt: bench.now)]
    #expect(try question(.missedNotice, bench)?.missed == both)
    HistoryTests.store(.history, &bench)
    #expect(try question(.missedNotice, bench)?.missed == [both[1]])
    HistoryTests.store(.history, &bench, [second])
    #expect(try question(.missedNotice, bench) == UnreadQuestion(user: HistoryTests.bob))
  }

  @Test func withoutAHistoryThereIsNoNumber() throws {
    #expect(try question(.missedNotice, missed(subscriptions: [])) == nil)
    #expect(try question(.missedNotice, missed(keeps: .record)) == nil)
  }

  @Test func whatRingsDoesNotWaitAndAnAnsweredCallIsNotMissed() throws {
    var bench = HistoryTests.bench()
    bench.enrol("b1", voip: "v1", alert: "a1")
    bench.attach("b2")
    HistoryTests.place(&bench)
    #expect(try question(.ring, bench) == nil)
    bench.report(.accepted, "b1", token: "v1")
    bench.answer("b2", "sdp")
    #expect(try question(.ended, bench) == UnreadQuestion(user: HistoryTests.bob))
    bench.caller(.hangUp)
    #expect(try question(.ended, bench) == UnreadQuestion(user: HistoryTests.bob))
  }

  /// The call did not go on to carol.
  @Test func whoWasRungInPlaceOfTheCalleeHasMissedNothing() throws {
    let bench = missed()
    var job = try #require(bench.pushes.first)
    job.user = UserKey(app: Bench.app, user: "carol")
    #expect(bench.shard.unreadQuestion(of: job) == UnreadQuestion(user: job.user))
  }

  @Test func aNewOwnerSaysTheSame() throws {
    let bench = missed()
    var next = bench.successor(checkpoint: true, registered: ["b1"])
    next.shard.storedParts = .history
    next.begin()
    #expect(try question(.missedNotice, next)?.missed == [placed])
  }
}
