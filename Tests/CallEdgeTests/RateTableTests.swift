import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Testing

private let start = Timestamp(microseconds: 1_800_000_000_000_000)

private func key(_ user: String, _ device: String = "", app: String = "demo") -> RateKey {
  RateKey(user: UserKey(app: app, user: user), device: DeviceID(device))
}

@Suite struct RateTableTests {
  private func table(entriesMax: Int = 100) -> RateTable<RateKey> {
    RateTable(perSecond: 1, burst: 2, entriesMax: entriesMax, now: start)
  }

  @Test func everybodyHasItsOwn() {
    var table = table()
    let all = [key("ann"), key("ann", "phone"), key("bob"), key("ann", app: "other")]
    for each in all {
      let waits = (0..<3).map { _ in table.charge(each, now: start) }
      #expect(waits == [nil, nil, 1000])
    }
    #expect(table.count == all.count && table.forgottenEarly == 0)
  }

  @Test func itFillsWithTime() {
    var table = table()
    let waits = [0, 0, 400, 1000, 1000].map {
      table.charge(key("ann"), now: start + .milliseconds($0))
    }
    #expect(waits == [nil, nil, 600, nil, 1000])
  }

  /// A peer that goes on speaking is never forgotten, through any number of turns.
  @Test func theTurnOfTheTablesForgivesNobody() {
    var table = table()
    let taken = (0..<1000).count {
      table.charge(key("ann"), now: start + .milliseconds(Int64($0) * 100)) == nil
    }
    // Two at once, and one in each of 99.9 seconds.
    #expect((100...102).contains(taken))
    #expect(table.forgottenEarly == 0)
  }

  @Test func whoIsSilentIsForgotten() {
    var table = table()
    for index in 0..<50 { _ = table.charge(key("user\(index)"), now: start) }
    #expect(table.count == 50)
    _ = table.charge(key("ann"), now: start + .seconds(3))
    #expect(table.count == 51)
    _ = table.charge(key("ann"), now: start + .seconds(6))
    #expect(table.count == 1)
    for index in 0..<50 { _ = table.charge(key("user\(index)"), now: start + .seconds(7)) }
    // After a long silence nothing of it is left.
    _ = table.charge(key("ann"), now: start + .seconds(3600))
    #expect(table.count == 1 && table.forgottenEarly == 0)
  }

  @Test func itIsBoundedAndTheSilentGiveWay() {
    var table = table(entriesMax: 10)
    for index in 0..<1000 {
      _ = table.charge(key("user\(index)"), now: start)
      // Somebody goes on speaking meanwhile: it does not escape by the others' number.
      let answer = table.charge(key("ann"), now: start)
      #expect((answer == nil) == (index < 2), "\(index)")
      #expect(table.count <= 20)
    }
    #expect(table.forgottenEarly >= 900)
  }
}

@Suite struct TokenBucketTests {
  /// The wait for one more of ten a second and three at once.
  private func take(
    _ bucket: inout TokenBucket, at now: Timestamp = start, mayOverdraw: Bool = false
  ) -> UInt32? {
    bucket.consume(mayOverdraw: mayOverdraw, perSecond: 10, burst: 3, now: now)
  }

  @Test func burstThenSteadyRate() {
    var bucket = TokenBucket(burst: 3, now: start)
    let waits = (0..<4).map { _ in take(&bucket) }
    #expect(waits == [nil, nil, nil, 100])
    // A clock that goes back gives nothing.
    #expect(take(&bucket, at: start + Span(microseconds: -5)) != nil)
    let taken = (1...1000).count {
      take(&bucket, at: start + .milliseconds(Int64($0) * 10)) == nil
    }
    #expect(taken == 100)
    // It never holds more than the burst.
    let later = (0..<4).map { _ in take(&bucket, at: start + .seconds(1_000_000)) }
    #expect(later[..<3].allSatisfy { $0 == nil } && later[3] != nil)
  }

  @Test func whatMustNotWaitOverdrawsItOnce() {
    var bucket = TokenBucket(burst: 3, now: start)
    for _ in 0..<3 { #expect(take(&bucket) == nil) }
    for wait: UInt32 in [100, 200, 300] {
      #expect(take(&bucket) == wait)
      #expect(take(&bucket, mayOverdraw: true) == nil)
    }
    #expect(take(&bucket, mayOverdraw: true) == 100)
    #expect(take(&bucket) == 400, "the debt comes first")
  }
}

/// A queue of the edge that is full drops its newest or its oldest, and counts it.
@Suite struct QueueLimitTests {
  @Test func aFullInboxDropsAndCounts() {
    let registry = MetricsRegistry()
    let waiting = registry.gauge("waiting", "")
    let dropped = registry.counter("dropped", "")
    let inbox = LoopInbox(capacity: 3, waiting: waiting, dropped: dropped)
    func items(_ sessions: ClosedRange<UInt64>) -> [EdgeItem] {
      sessions.map { EdgeItem(session: $0, body: .reply(request: 1, .done)) }
    }
    #expect(inbox.add(items(1...2)), "the first items wake the loop")
    #expect(!inbox.add(items(3...5)), "it is awake")
    #expect(waiting.value == 3 && dropped.value == 2)
    #expect(inbox.takeItems().map(\.session) == [1, 2, 3])
    #expect(waiting.value == 0 && dropped.value == 2)
    #expect(inbox.add(items(6...6)))
  }

  @Test func closedSessionsAreForgottenAfterAMinute() {
    let start = Timestamp(microseconds: 1_000_000)
    var closed = ClosedSessions()
    let end = DeviceSession.End(user: ann, device: DeviceID("phone"), isGraceful: false, calls: [:])
    for session in 1...UInt64(ClosedSessions.capacity + 10) {
      closed.add(end, session: session, now: start)
    }
    #expect(closed.count == ClosedSessions.capacity && closed.forgottenEarly == 10)
    closed.add(end, session: 10_000, now: start + ClosedSessions.keptFor)
    #expect(closed.count == 1 && closed.forgottenEarly == 10)
  }

  @Test(
    .stillEdge {
      $0.eventLoops = 1
      $0.commandsPendingPerLoop = 1
    })
  func commandsOverTheLimitAreRefusedAndCounted() async throws {
    edge.shards.follow { $0.isQuery ? nil : FakeShards.agreeing($0) }
    let (client, _) = try await edge.device("ann", "phone")
    for id: UInt64 in 2...3 {
      client.say(id, .call(CallAddress(callee: "bob", call: CallID(high: 1, low: id)), .query))
    }
    #expect(try await client.errorReply() == (3, .overloaded))
    #expect(edge.metric("callmesh_edge_commands_refused_total") == 1)
  }
}
