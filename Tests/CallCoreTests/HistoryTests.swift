import CallCore
import Testing

/// Histories: what an ended call leaves on both sides, and until when its shard asks for that.
@Suite struct HistoryTests {
  static let bob = UserKey(app: Bench.app, user: "bob")
  static let alice = UserKey(app: Bench.app, user: "alice")

  static func bench(
    keeps: StoredParts = .history, limits: CallLimits = CallLimits()
  ) -> Bench {
    var bench = Bench(limits: limits)
    bench.shard.storedParts = keeps
    return bench
  }

  static func place(
    _ bench: inout Bench, _ call: CallID = Bench.callID, subscriptions: Subscriptions = .history,
    video: Bool = false, user: String = "alice", device: String = "alice1"
  ) {
    bench.say(
      .place(
        PlaceRequest(
          call: call, video: video, deviceName: "Alice's phone", callerName: "Alice A.",
          subscriptions: subscriptions)), user: user, device: device)
  }

  /// Calls for which entries are to be stored.
  static func wanted(_ effects: [Effect]) -> [CallID] {
    effects.compactMap { if case .history(.store(let call)) = $0 { call } else { nil } }
  }

  static func store(
    _ part: StoredParts = .history, _ bench: inout Bench, _ calls: [CallID] = [Bench.callID]
  ) {
    bench.run { $0.stored(part, of: calls, now: $1, into: &$2) }
  }

  private static func recorded(_ bench: Bench) -> Int {
    bench.journal.count { $0.change == .recorded }
  }

  /// b1 answers after 3 s, and the caller hangs up 5 s later.
  private static func answeredCall(_ bench: inout Bench, subscriptions: Subscriptions = .history) {
    bench.attach("b1", "b2")
    place(&bench, subscriptions: subscriptions, video: true)
    bench.pass(.seconds(3))
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    bench.pass(.seconds(5))
    bench.caller(.call(Bench.callID, .hangUp))
  }

  // MARK: Entries

  @Test func anAnsweredCallIsOnBothSides() {
    var bench = Self.bench()
    let start = bench.now
    Self.answeredCall(&bench)
    #expect(Self.wanted(bench.effects) == [Bench.callID])
    let entries = bench.shard.historyEntries(of: Bench.callID)
    #expect(entries.map(\.user) == [Self.bob, Self.alice])
    #expect(
      entries.map(\.entry) == [
        HistoryEntry(
          call: Bench.callID, callee: "bob", isPlaced: false, peer: "alice", peerName: "Alice A.",
          device: "b1", deviceName: "Bob's b1", placedAt: start, answeredAt: start + .seconds(3),
          endedAt: start + .seconds(8), reason: .hungUp, video: true),
        HistoryEntry(
          call: Bench.callID, callee: "bob", isPlaced: true, peer: "bob", device: "alice1",
          deviceName: "Alice's phone", placedAt: start, answeredAt: start + .seconds(3),
          endedAt: start + .seconds(8), reason: .hungUp, video: true),
      ])
  }

  @Test func aMissedCallIsMissedByItsCallee() {
    var bench = Self.bench()
    bench.attach("b1")
    Self.place(&bench)
    bench.pass(.seconds(2))
    bench.caller(.call(Bench.callID, .cancel))
    let entries = bench.shard.historyEntries(of: Bench.callID).map(\.entry)
    #expect(entries.map(\.isMissed) == [true, false])
    #expect(entries.map(\.reason) == [.cancelled, .cancelled])
    #expect(entries.map(\.answeredAt) == [nil, nil])
    #expect(entries.map(\.device) == [nil, "alice1"])
  }

  @Test func aDeclinedCallIsNotMissed() {
    var bench = Self.bench()
    bench.attach("b1")
    Self.place(&bench)
    bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b1")
    let entries = bench.shard.historyEntries(of: Bench.callID).map(\.entry)
    #expect(entries.map(\.isMissed) == [false, false])
    #expect(entries.map(\.reason) == [.declined, .declined])
  }

  /// There is one history, and whoever placed the call knows of it.
  @Test func aCallToOneselfHasOneEntry() {
    var bench = Self.bench()
    bench.attach("b1", "b2")
    Self.place(&bench, user: "bob", device: "b2")
    bench.pass(.seconds(60))
    let entries = bench.shard.historyEntries(of: Bench.callID)
    #expect(entries.map(\.user) == [Self.bob])
    #expect(entries.map(\.entry.isPlaced) == [true])
    #expect(entries.map(\.entry.isMissed) == [false])
    #expect(entries.map(\.entry.peer) == ["bob"])
  }

  @Test func aCallThatGaveWayHasNone() {
    var bench = Self.bench(keeps: [.record, .history])
    bench.attach("b1")
    Self.place(&bench)
    bench.caller(
      .crossed(
        CrossedCall(
          call: Bench.callID, caller: "alice", survivor: CallID(high: 0, low: 7), by: "b1")))
    #expect(bench.ends.map(\.reason) == [.glare])
    #expect(Self.wanted(bench.effects).isEmpty)
    #expect(bench.shard.historyEntries(of: Bench.callID).isEmpty)
    Self.store(.record, &bench)
    #expect(Self.recorded(bench) == 1)
  }

  @Test func aCallThatGoesOnHasNone() {
    var bench = Self.bench()
    bench.attach("b1")
    Self.place(&bench)
    #expect(bench.shard.historyEntries(of: Bench.callID).isEmpty)
    #expect(bench.shard.historyEntries(of: CallID(high: 9, low: 9)).isEmpty)
  }

  @Test(arguments: [
    (StoredParts.history, Subscriptions()), (StoredParts.record, Subscriptions.history),
  ])
  func whoDoesNotWantItGetsNone(keeps: StoredParts, subscriptions: Subscriptions) {
    var bench = Self.bench(keeps: keeps)
    Self.answeredCall(&bench, subscriptions: subscriptions)
    #expect(Self.wanted(bench.effects).isEmpty)
    #expect(bench.shard.historyEntries(of: Bench.callID).isEmpty)
    #expect(!bench.shard.lacks(.history, of: Bench.callID))
  }

  // MARK: What is stored

  @Test(arguments: [false, true])
  func theJournalSaysSoOnceEverythingIsStored(recordFirst: Bool) {
    var bench = Self.bench(keeps: [.record, .history])
    Self.answeredCall(&bench)
    let parts: [StoredParts] = recordFirst ? [.record, .history] : [.history, .record]
    Self.store(parts[0], &bench)
    #expect(Self.recorded(bench) == 0)
    #expect(!bench.shard.lacks(parts[0], of: Bench.callID))
    #expect(bench.shard.lacks(parts[1], of: Bench.callID))
    Self.store(parts[0], &bench)
    #expect(Self.recorded(bench) == 0, "repeated")
    Self.store(parts[1], &bench)
    #expect(Self.recorded(bench) == 1)
    Self.store(parts[1], &bench)
    #expect(Self.recorded(bench) == 1, "repeated")
    #expect(bench.shard.historyEntries(of: Bench.callID).isEmpty)
  }

  @Test func aCallWithoutHistoryIsRecordedByItsRecord() {
    var bench = Self.bench(keeps: [.record, .history])
    Self.answeredCall(&bench, subscriptions: [])
    Self.store(.record, &bench)
    #expect(Self.recorded(bench) == 1)
  }

  @Test(arguments: [false, true])
  func aNewOwnerStoresAgainWhatTheJournalDoesNotSay(checkpoint: Bool) {
    var bench = Self.bench(keeps: [.record, .history])
    Self.answeredCall(&bench)
    Self.store(.history, &bench)
    func next() -> Bench {
      var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
      next.shard.storedParts = [.record, .history]
      return next.begun()
    }
    // Only its predecessor knew that the entries are stored.
    let first = next()
    #expect(Self.wanted(first.effects) == [Bench.callID])
    Self.store(.record, &bench)
    let second = next()
    #expect(Self.wanted(second.effects).isEmpty)
    #expect(second.shard.historyEntries(of: Bench.callID).isEmpty)
    #expect(
      first.shard.historyEntries(of: Bench.callID).map(\.user) == [Self.bob, Self.alice])
  }

  @Test func aCallIsKeptUntilItsEntriesAreStored() {
    var bench = Self.bench()
    Self.answeredCall(&bench)
    bench.pass(.seconds(3600))
    #expect(bench.shard.callsUnrecorded == 1)
    #expect(bench.shard.historyEntries(of: Bench.callID).count == 2)
    Self.store(.history, &bench)
    #expect(bench.shard.callsUnrecorded == 0)
    #expect(bench.shard.inspect(call: Bench.callID) == nil)
    #expect(bench.journal.last?.change == .recorded)
  }

  @Test func aboveTheLimitCallsAreForgottenAndCounted() {
    var limits = CallLimits()
    limits.unrecordedCalls = 2
    var bench = Self.bench(limits: limits)
    let calls = (1...5).map { CallID(high: 1, low: $0) }
    for call in calls { Self.place(&bench, call) }
    bench.pass(.seconds(3600))
    #expect(bench.shard.callsUnrecorded == 2)
    #expect(bench.shard.counts.historiesLostTotal == 3)
    #expect(bench.shard.counts.recordsLostTotal == 0)
  }
}
