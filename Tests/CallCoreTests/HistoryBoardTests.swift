import CallCore
import Testing

/// The state of a user's history, as the user's sessions see it.
@Suite struct HistoryBoardTests {
  private static let bob = HistoryTests.bob

  private static func state(_ cursor: UInt64, unread: UInt32 = 0) -> HistoryState {
    HistoryState(cursor: HistoryCursor(cursor), unread: unread)
  }

  private static func watch(
    _ bench: inout Bench, _ device: String = "b1", shown: UInt64? = nil, announce: Bool = false
  ) {
    let mark = HistoryMark(shown: shown.map { HistoryCursor($0) })
    bench.say(.attach(Attach(announce: announce, history: mark)), device: device)
  }

  /// How often the driver is to read bob's history, of the effects taken.
  private static func reads(_ effects: [Effect]) -> Int {
    effects.count { $0 == .history(.read(bob)) }
  }

  private static func shown(_ effects: [Effect], _ device: String = "b1") -> [HistoryState] {
    effects.compactMap {
      if case .history(.show(Bench.session(device), let state)) = $0 { state } else { nil }
    }
  }

  private static func wasRead(_ bench: inout Bench, _ state: HistoryState?) {
    bench.run { $0.historyRead(Self.bob, state, now: $1, into: &$2) }
  }

  private static func change(_ bench: inout Bench) {
    bench.run { $0.historyChanged(Self.bob, now: $1, into: &$2) }
  }

  private static func acknowledge(_ bench: inout Bench, _ cursor: UInt64, _ device: String = "b1") {
    bench.say(
      .ack([Acknowledgement(call: Acknowledgement.historyID, version: cursor)]), device: device)
  }

  /// b1 has the state with the cursor 5.
  private static func watching() -> Bench {
    var bench = HistoryTests.bench()
    watch(&bench)
    wasRead(&bench, state(5, unread: 1))
    acknowledge(&bench, 5)
    _ = bench.take()
    return bench
  }

  @Test func whoAttachesIsShownTheState() {
    var bench = HistoryTests.bench()
    Self.watch(&bench)
    #expect(Self.reads(bench.effects) == 1)
    #expect(Self.shown(bench.take()).isEmpty)
    Self.wasRead(&bench, Self.state(0))
    #expect(Self.shown(bench.take()) == [Self.state(0)], "also that there is nothing")
  }

  @Test func itIsRetransmittedUntilItIsAcknowledged() {
    var bench = HistoryTests.bench()
    Self.watch(&bench)
    Self.wasRead(&bench, Self.state(5))
    bench.pass(.milliseconds(499))
    #expect(Self.shown(bench.effects).count == 1)
    bench.pass(.milliseconds(1))
    #expect(Self.shown(bench.effects).count == 2)
    Self.acknowledge(&bench, 5)
    bench.pass(.seconds(3600))
    #expect(Self.shown(bench.effects).count == 2)
  }

  @Test func afterTheLastTimeItWaitsForAChange() {
    var bench = HistoryTests.bench()
    Self.watch(&bench)
    Self.wasRead(&bench, Self.state(5))
    bench.pass(.seconds(3600))
    #expect(Self.shown(bench.take()).count == 5)
    Self.change(&bench)
    Self.wasRead(&bench, Self.state(6))
    #expect(Self.shown(bench.take()) == [Self.state(6)])
  }

  @Test func aChangeIsReadAndShown() {
    var bench = Self.watching()
    Self.change(&bench)
    #expect(Self.reads(bench.take()) == 1)
    Self.wasRead(&bench, Self.state(6, unread: 2))
    #expect(Self.shown(bench.take()) == [Self.state(6, unread: 2)])
  }

  /// The read may have begun before the change.
  @Test func aChangeDuringAReadIsReadAgain() {
    var bench = Self.watching()
    Self.change(&bench)
    Self.change(&bench)
    Self.change(&bench)
    #expect(Self.reads(bench.take()) == 1)
    Self.wasRead(&bench, Self.state(6))
    #expect(Self.reads(bench.take()) == 1)
    Self.wasRead(&bench, Self.state(7))
    #expect(Self.reads(bench.take()) == 0)
  }

  @Test func anOlderStateIsNotShown() {
    var bench = Self.watching()
    Self.change(&bench)
    Self.wasRead(&bench, Self.state(4))
    Self.change(&bench)
    Self.wasRead(&bench, Self.state(5))
    #expect(Self.shown(bench.take()).isEmpty)
  }

  @Test func aReadThatFailedIsRepeated() {
    var bench = HistoryTests.bench()
    Self.watch(&bench)
    _ = bench.take()
    for pause: Int64 in [1, 2, 4, 8, 8] {
      Self.wasRead(&bench, nil)
      bench.pass(.milliseconds(1000 * pause - 1))
      #expect(Self.reads(bench.take()) == 0)
      bench.pass(.milliseconds(1))
      #expect(Self.reads(bench.take()) == 1)
    }
    Self.wasRead(&bench, Self.state(1))
    #expect(Self.shown(bench.take()) == [Self.state(1)])
    Self.change(&bench)
    Self.wasRead(&bench, nil)
    bench.pass(.seconds(1))
    #expect(Self.reads(bench.take()) == 2, "at once, and after the first pause again")
  }

  @Test func everySessionIsShownIt() {
    var bench = Self.watching()
    Self.watch(&bench, "b2")
    #expect(Self.shown(bench.effects, "b2") == [Self.state(5, unread: 1)])
    #expect(Self.shown(bench.take()).isEmpty)
    Self.change(&bench)
    Self.wasRead(&bench, Self.state(6))
    #expect(Self.shown(bench.effects) == [Self.state(6)])
    #expect(Self.shown(bench.effects, "b2") == [Self.state(6)])
  }

  @Test func withoutASessionNothingIsRead() {
    var bench = Self.watching()
    bench.say(.sessionClosed(graceful: true), device: "b1")
    _ = bench.take()
    Self.change(&bench)
    Self.wasRead(&bench, Self.state(6))
    #expect(bench.take().isEmpty)
    bench.pass(.seconds(60))
    #expect(bench.take().isEmpty)
  }

  @Test func anEdgeThatIsLostTakesItsSessionsAlong() {
    var bench = Self.watching()
    bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    _ = bench.take()
    Self.change(&bench)
    #expect(bench.take().isEmpty)
  }

  @Test func whoDoesNotAskIsNotShownIt() {
    var bench = HistoryTests.bench()
    bench.attach("b1")
    Self.change(&bench)
    #expect(Self.reads(bench.take()) == 0)
  }

  @Test func withoutHistoriesNothingIsRead() {
    var bench = HistoryTests.bench(keeps: .record)
    Self.watch(&bench)
    #expect(Self.reads(bench.take()) == 0)
  }

  // MARK: A new owner

  @Test(arguments: [nil, 4, 5] as [UInt64?])
  func aNewOwnerReadsAndShowsWhatASessionLacks(shown: UInt64?) {
    var next = Self.watching().takenOver()
    next.shard.storedParts = .history
    Self.watch(&next, shown: shown, announce: true)
    #expect(Self.reads(next.take()) == 0, "it does not serve yet")
    next = next.begun()
    #expect(Self.reads(next.take()) == 1)
    Self.wasRead(&next, Self.state(5))
    #expect(Self.shown(next.take()) == (shown == 5 ? [] : [Self.state(5)]))
  }

  // MARK: Commands

  @Test(arguments: [
    HistoryCommand.list(before: nil, limit: 10), .markRead(upTo: HistoryCursor(5)),
  ])
  func theDriverAnswersAUser(command: HistoryCommand) {
    var bench = HistoryTests.bench()
    let reply = bench.say(.history(command), device: "b1", number: 33)
    #expect(reply == nil)
    #expect(
      bench.effects == [
        .history(.answer(Bench.session("b1"), request: 33, Self.bob, command))
      ])
  }

  @Test func aClusterWithoutHistoriesRefuses() {
    var bench = HistoryTests.bench(keeps: .record)
    let reply = bench.say(.history(.list(before: nil, limit: 10)), device: "b1")
    #expect(reply?.error == .forbidden)
  }

  @Test func anotherShardTellsOfAChange() {
    var bench = Self.watching()
    let reply = bench.say(.history(.changed), device: "b1")
    #expect(reply == .done)
    #expect(Self.reads(bench.effects) == 1)
  }
}
