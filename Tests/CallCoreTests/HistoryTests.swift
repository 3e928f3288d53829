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
  private static func answeredCall(
    keeps: StoredParts = .history, subscriptions: Subscriptions = .history
  ) -> Bench {
    var bench = bench(keeps: keeps)
    bench.attach("b1", "b2")
    place(&bench, subscriptions: subscriptions, video: true)
    bench.pass(.seconds(3))
    bench.say(.answer(description: "sdp"), "b1")
    bench.pass(.seconds(5))
    bench.caller(.hangUp)
    return bench
  }

  // MARK: Entries

  @Test func anAnsweredCallIsOnBothSides() {
    let start = Self.bench().now
    let bench = Self.answeredCall()
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

  @Test(arguments: [EndReason.cancelled, .declined])
  func whatNobodyAnswersIsMissedUnlessItIsDeclined(reason: EndReason) {
    var bench = Self.bench()
    bench.attach("b1")
    Self.place(&bench)
    bench.pass(.seconds(2))
    if reason == .declined { bench.say(.decline(.everywhere), "b1") } else { bench.caller(.cancel) }
    let entries = bench.shard.historyEntries(of: Bench.callID).map(\.entry)
    #expect(entries.map(\.isMissed) == [reason == .cancelled, false])
    #expect(entries.map(\.reason) == [reason, reason])
    #expect(entries.map(\.answeredAt) == [nil, nil])
    #expect(entries.map(\.device) == [nil, "alice1"])
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
    let survivor = CallID(high: 0, low: 7)
    bench.caller(
      .crossed(CrossedCall(call: Bench.callID, caller: "alice", survivor: survivor, by: "b1")))
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
    (StoredParts([.record, .history]), Subscriptions()),
  ])
  func whoDoesNotWantItGetsNone(keeps: StoredParts, subscriptions: Subscriptions) {
    var bench = Self.answeredCall(keeps: keeps, subscriptions: subscriptions)
    #expect(Self.wanted(bench.effects).isEmpty)
    #expect(bench.shard.historyEntries(of: Bench.callID).isEmpty)
    #expect(!bench.shard.lacks(.history, of: Bench.callID))
    Self.store(.record, &bench)
    #expect(Self.recorded(bench) == (keeps.contains(.record) ? 1 : 0), "by its record alone")
  }

  // MARK: What is stored

  /// Parts that an app may want to be stored, besides the record.
  enum Part: CaseIterable {
    case history, events

    var stored: StoredParts { self == .history ? .history : .events }
    var subscriptions: Subscriptions { self == .history ? .history : .webhooks }
  }

  /// How many entries or events of the call are to be stored.
  private static func lacking(_ bench: Bench) -> Int {
    bench.shard.historyEntries(of: Bench.callID).count
      + bench.shard.events(of: Bench.callID, .all).count
  }

  @Test(arguments: Part.allCases, [false, true])
  func theJournalSaysSoOnceEverythingIsStored(part: Part, recordFirst: Bool) {
    var bench = Self.answeredCall(keeps: [.record, part.stored], subscriptions: part.subscriptions)
    let parts: [StoredParts] = recordFirst ? [.record, part.stored] : [part.stored, .record]
    let before = bench.journal.count
    for (index, count) in zip([0, 0, 1, 1, 0], [0, 0, 1, 1, 1]) {
      let first = parts[index]
      Self.store(first, &bench)
      #expect(bench.journal.count == before + count)
      #expect(Self.recorded(bench) == count, "once, however often it is said")
      #expect(!bench.shard.lacks(first, of: Bench.callID))
      #expect(bench.shard.lacks(parts[1], of: Bench.callID) == (count == 0))
      let isRecordStored = recordFirst || count == 1
      #expect((bench.shard.record(of: Bench.callID) == nil) == isRecordStored)
      #expect((Self.lacking(bench) == 0) == (!recordFirst || count == 1))
    }
    #expect(bench.journal.last?.change == .recorded)
  }

  @Test(arguments: [false, true])
  func aNewOwnerStoresAgainWhatTheJournalDoesNotSay(checkpoint: Bool) {
    var bench = Self.answeredCall(keeps: [.record, .history])
    Self.store(.history, &bench)
    func next() -> Bench {
      var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
      next.shard.storedParts = [.record, .history]
      return next.begun()
    }
    // Only its predecessor knew that the entries are stored.
    let first = next()
    #expect(Self.wanted(first.effects) == [Bench.callID])
    #expect(first.shard.historyEntries(of: Bench.callID).map(\.user) == [Self.bob, Self.alice])
    Self.store(.record, &bench)
    let second = next()
    #expect(Self.wanted(second.effects).isEmpty)
    #expect(second.shard.historyEntries(of: Bench.callID).isEmpty)
  }

  @Test(arguments: Part.allCases) func aCallIsKeptUntilAllIsStored(part: Part) {
    var bench = Self.answeredCall(keeps: part.stored, subscriptions: part.subscriptions)
    bench.acknowledgeAll()
    bench.pass(.seconds(3600))
    #expect(bench.shard.callsUnrecorded == 1)
    #expect(Self.lacking(bench) == (part == .history ? 2 : 3))
    Self.store(part.stored, &bench)
    #expect(bench.shard.callsUnrecorded == 0)
    #expect(bench.shard.inspect(call: Bench.callID) == nil)
    #expect(bench.journal.last?.change == .recorded)
  }

  @Test(arguments: Part.allCases) func aboveTheLimitCallsAreForgottenAndCounted(part: Part) {
    var bench = Self.bench(keeps: part.stored, limits: .with { $0.unrecordedCalls = 2 })
    let calls = (1...5).map { CallID(high: 1, low: $0) }
    for call in calls { Self.place(&bench, call, subscriptions: part.subscriptions) }
    bench.pass(.seconds(3600))
    #expect(bench.shard.callsUnrecorded == 2)
    #expect(calls.count { bench.shard.inspect(call: $0) != nil } == 2)
    #expect(bench.shard.counts.historiesLostTotal == (part == .history ? 3 : 0))
    #expect(bench.shard.counts.recordsLostTotal == (part == .events ? 3 : 0))
  }
}
