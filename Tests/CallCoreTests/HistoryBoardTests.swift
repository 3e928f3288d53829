import CallCore
import Testing

/// The state of a user's history, as the user's sessions see it.
@Suite struct HistoryBoardTests {
  private static func state(_ cursor: UInt64, unread: UInt32 = 0) -> HistoryState {
    HistoryState(cursor: HistoryCursor(cursor), unread: unread)
  }

  /// b1 asks for the state and is shown none yet.
  private static func asking() -> Bench {
    var bench = HistoryTests.bench()
    bench.askForHistory()
    return bench
  }

  /// b1 has the state with the cursor 5.
  private static func watching() -> Bench {
    var bench = asking()
    bench.wasRead(state(5, unread: 1))
    bench.acknowledge(5)
    _ = bench.take()
    return bench
  }

  @Test func whoAttachesIsShownTheState() {
    var bench = Self.asking()
    #expect(bench.states().isEmpty && bench.takeReads() == 1)
    bench.wasRead(Self.state(0))
    #expect(bench.takeStates() == [Self.state(0)], "also that there is nothing")
  }

  @Test func itIsRetransmittedUntilItIsAcknowledged() {
    var bench = Self.asking()
    bench.wasRead(Self.state(5))
    bench.pass(.milliseconds(499))
    #expect(bench.states().count == 1)
    bench.pass(.milliseconds(1))
    #expect(bench.states().count == 2)
    bench.acknowledge(5)
    bench.pass(.seconds(3600))
    #expect(bench.states().count == 2)
  }

  /// An edge may have been stalled for longer than the first repeats take.
  @Test func itIsRetransmittedAsLongAsTheSessionLasts() {
    var bench = Self.asking()
    bench.wasRead(Self.state(5))
    bench.pass(.milliseconds(7500))
    #expect(bench.takeStates().count == 5)
    for _ in 1...100 {
      bench.pass(.seconds(8))
      #expect(bench.takeStates() == [Self.state(5)])
    }
    bench.say(.sessionClosed(graceful: true), device: "b1")
    bench.pass(.seconds(3600))
    #expect(bench.takeStates().isEmpty)
  }

  /// The read may have begun before the change.
  @Test func aChangeDuringAReadIsReadAgain() {
    var bench = Self.watching()
    for _ in 0..<3 { bench.change() }
    #expect(bench.takeReads() == 1)
    bench.wasRead(Self.state(6))
    #expect(bench.takeReads() == 1)
    bench.wasRead(Self.state(7))
    #expect(bench.takeReads() == 0)
  }

  @Test func anOlderStateIsNotShown() {
    var bench = Self.watching()
    for cursor: UInt64 in [4, 5] {
      bench.change()
      bench.wasRead(Self.state(cursor))
    }
    #expect(bench.takeStates().isEmpty)
  }

  @Test func aReadThatFailedIsRepeated() {
    var bench = Self.asking()
    _ = bench.take()
    for pause: Int64 in [1, 2, 4, 8, 8] {
      bench.wasRead(nil)
      bench.pass(.milliseconds(1000 * pause - 1))
      #expect(bench.takeReads() == 0)
      bench.pass(.milliseconds(1))
      #expect(bench.takeReads() == 1)
    }
    bench.wasRead(Self.state(1))
    #expect(bench.takeStates() == [Self.state(1)])
    bench.change()
    bench.wasRead(nil)
    bench.pass(.seconds(1))
    #expect(bench.takeReads() == 2, "at once, and after the first pause again")
  }

  @Test func aMarkThatTheStoreMayLackIsStoredBeforeTheNextRead() {
    var bench = Self.watching()
    bench.change(openMark: 4)
    #expect(bench.takeMarks() == [HistoryCursor(4)])
    // Both are stored by the greater one, also if the read fails.
    bench.change(openMark: 5)
    bench.change(openMark: 3)
    bench.change()
    bench.wasRead(Self.state(6))
    #expect(bench.takeMarks() == [HistoryCursor(5)])
    bench.wasRead(nil)
    bench.pass(.seconds(1))
    #expect(bench.takeMarks() == [HistoryCursor(5)])
    bench.wasRead(Self.state(7))
    bench.change()
    #expect(bench.takeMarks() == [nil], "the store has it")
  }

  @Test func everySessionIsShownIt() {
    var bench = Self.watching()
    bench.askForHistory("b2")
    #expect(bench.states("b2") == [Self.state(5, unread: 1)])
    #expect(bench.takeStates().isEmpty)
    bench.change()
    bench.wasRead(Self.state(6))
    #expect(bench.states("b1") == [Self.state(6)] && bench.states("b2") == [Self.state(6)])
  }

  @Test(arguments: [true, false]) func withoutASessionNothingIsRead(isEdgeLost: Bool) {
    var bench = Self.watching()
    if isEdgeLost {
      bench.run { $0.edgeLost(1, now: $1, into: &$2) }
    } else {
      bench.say(.sessionClosed(graceful: true), device: "b1")
    }
    _ = bench.take()
    bench.change()
    bench.wasRead(Self.state(6))
    bench.pass(.seconds(60))
    #expect(bench.take().isEmpty)
  }

  @Test func whoDoesNotAskIsNotShownIt() {
    var bench = HistoryTests.bench()
    bench.attach("b1")
    bench.change()
    #expect(bench.takeReads() == 0)
  }

  // MARK: A new owner

  @Test(arguments: [nil, 4, 5] as [UInt64?])
  func aNewOwnerReadsAndShowsWhatASessionLacks(shown: UInt64?) {
    var next = Self.watching().takenOver()
    next.shard.storedParts = .history
    next.askForHistory(shown: shown, announce: true)
    #expect(next.takeReads() == 0, "it does not serve yet")
    next = next.begun()
    #expect(next.takeReads() == 1)
    next.wasRead(Self.state(5))
    #expect(next.takeStates() == (shown == 5 ? [] : [Self.state(5)]))
  }

  // MARK: Commands

  @Test(arguments: [
    HistoryCommand.list(before: nil, limit: 10), .markRead(upTo: HistoryCursor(5)),
  ])
  func theDriverAnswersAUser(command: HistoryCommand) {
    var bench = HistoryTests.bench()
    #expect(bench.say(.history(command), device: "b1", number: 33) == nil)
    let answer = HistoryEffect.answer(Bench.session("b1"), request: 33, HistoryTests.bob, command)
    #expect(bench.effects == [.history(answer)])
  }

  @Test func aClusterWithoutHistoriesReadsNothingAndRefuses() {
    var bench = HistoryTests.bench(keeps: .record)
    bench.askForHistory()
    #expect(bench.takeReads() == 0)
    let reply = bench.say(.history(.list(before: nil, limit: 10)), device: "b1")
    #expect(reply?.error == .forbidden)
  }

  @Test func anotherShardTellsOfAChange() {
    var bench = Self.watching()
    #expect(bench.say(.history(.changed), device: "b1") == .done)
    #expect(bench.takeReads() == 1)
  }
}

extension Bench {
  fileprivate mutating func askForHistory(
    _ device: String = "b1", shown: UInt64? = nil, announce: Bool = false
  ) {
    let mark = HistoryMark(shown: shown.map { HistoryCursor($0) })
    say(.attach(Attach(announce: announce, history: mark)), device: device)
  }

  fileprivate mutating func acknowledge(_ cursor: UInt64) {
    say(.ack([Acknowledgement(call: Acknowledgement.historyID, version: cursor)]), device: "b1")
  }

  /// The driver has read bob's history.
  fileprivate mutating func wasRead(_ state: HistoryState?) {
    run { $0.historyRead(HistoryTests.bob, state, now: $1, into: &$2) }
  }

  fileprivate mutating func change(openMark: UInt64? = nil) {
    let mark = openMark.map { HistoryCursor($0) }
    run { $0.historyChanged(HistoryTests.bob, openMark: mark, now: $1, into: &$2) }
  }

  /// How often the driver is to read bob's history. Takes the effects away.
  fileprivate mutating func takeReads() -> Int { takeMarks().count }

  /// The marks that the driver is to store before these reads. Takes the effects away.
  fileprivate mutating func takeMarks() -> [HistoryCursor?] {
    take().compactMap {
      if case .history(.read(HistoryTests.bob, let mark)) = $0 { .some(mark) } else { nil }
    }
  }

  fileprivate func states(_ device: String = "b1") -> [HistoryState] {
    effects.compactMap {
      if case .history(.show(Bench.session(device), let state)) = $0 { state } else { nil }
    }
  }

  /// The states that b1 was shown. Takes the effects away.
  fileprivate mutating func takeStates() -> [HistoryState] {
    defer { effects = [] }
    return states()
  }
}
