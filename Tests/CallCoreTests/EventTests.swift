import CallCore
import Testing

/// Events of calls for webhooks: each fact is one, each is asked for once, and a new owner asks for all again.
@Suite struct EventTests {
  /// A shard that keeps events, and records if asked to.
  private static func bench(keepsRecords: Bool = false, limits: CallLimits = CallLimits()) -> Bench
  {
    var bench = Bench(limits: limits)
    bench.shard.storedParts = keepsRecords ? [.events, .record] : .events
    return bench
  }

  private static func place(_ bench: inout Bench, subscriptions: Subscriptions = .webhooks) {
    bench.say(
      .place(PlaceRequest(call: Bench.callID, deviceName: "Alice's", subscriptions: subscriptions)),
      user: "alice", device: "alice1")
  }

  /// Calls to b1 and b2, which b1 answers; the caller hangs up.
  private static func answeredCall(_ bench: inout Bench, subscriptions: Subscriptions = .webhooks) {
    bench.attach("b1", "b2")
    place(&bench, subscriptions: subscriptions)
    bench.pass(.milliseconds(100))
    bench.acknowledgeAll()
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    bench.pass(.milliseconds(50))
    bench.say(.call(Bench.callID, .alerting), device: "b2")
    bench.pass(.seconds(1))
    bench.say(.call(Bench.callID, .answer(description: "sdp")), device: "b1")
    bench.acknowledgeAll()
    bench.caller(.call(Bench.callID, .connected))
    bench.say(.call(Bench.callID, .connected), device: "b1")
    bench.pass(.seconds(5))
    bench.caller(.call(Bench.callID, .hangUp))
  }

  /// The events of the call, in the order in which the effects leave.
  private static func wanted(_ effects: [Effect]) -> [AppEventKinds] {
    effects.compactMap { if case .events(Bench.callID, let kinds) = $0 { kinds } else { nil } }
  }

  private static func kinds(_ kinds: AppEventKind...) -> AppEventKinds {
    AppEventKinds(kinds.map { AppEventKinds($0) })
  }

  private static func store(_ bench: inout Bench) {
    bench.run { $0.stored(.events, of: [Bench.callID], now: $1, into: &$2) }
  }

  @Test func anAnsweredCall() throws {
    var bench = Self.bench()
    Self.answeredCall(&bench)
    #expect(
      Self.wanted(bench.effects) == [
        Self.kinds(.placed), Self.kinds(.ringing), Self.kinds(.answered), Self.kinds(.ended),
      ])
    let events = bench.shard.events(of: Bench.callID, .all)
    try #require(events.map(\.kind) == [.placed, .ringing, .answered, .ended])
    let start = events[0].placedAt
    #expect(events.allSatisfy { $0.placedAt == start && $0.caller.user == "alice" })
    #expect(events.allSatisfy { $0.callee == UserKey(app: Bench.app, user: "bob") })
    #expect(events[0].at == start && events[0].by == nil && events[0].reason == nil)
    #expect(events[1].at == start + .milliseconds(100) && events[1].by?.device == "b1")
    #expect(events[2].at == start + .milliseconds(1150) && events[2].by?.device == "b1")
    #expect(events[3].at == start + .milliseconds(6150))
    #expect(events[3].by?.device == "alice1" && events[3].reason == .hungUp && !events[3].missed)
    #expect(events[3].answeredAt == events[2].at && events[2].answeredAt == nil)
  }

  @Test func aMissedCall() {
    var bench = Self.bench()
    bench.attach("b1")
    Self.place(&bench)
    bench.caller(.call(Bench.callID, .cancel))
    #expect(
      Self.wanted(bench.effects) == [Self.kinds(.placed), Self.kinds(.ended, .missed)])
    let events = bench.shard.events(of: Bench.callID, .all)
    #expect(events.map(\.kind) == [.placed, .ended, .missed])
    #expect(events.last?.reason == .cancelled && events.last?.missed == true)
    #expect(bench.shard.events(of: Bench.callID, Self.kinds(.missed)).count == 1)
  }

  @Test func aDeclinedCallIsNotMissed() {
    var bench = Self.bench()
    bench.attach("b1")
    Self.place(&bench)
    bench.say(.call(Bench.callID, .decline(.everywhere)), device: "b1")
    #expect(bench.shard.events(of: Bench.callID, .all).map(\.kind) == [.placed, .ended])
  }

  /// No effect and no byte of the journal.
  @Test(arguments: [true, false])
  func otherCallsPayNothing(keepsEvents: Bool) {
    var bench = Self.bench()
    bench.shard.storedParts = keepsEvents ? .events : []
    Self.answeredCall(&bench, subscriptions: keepsEvents ? [] : .webhooks)
    #expect(Self.wanted(bench.effects).isEmpty)
    #expect(bench.shard.events(of: Bench.callID, .all).isEmpty)
    #expect(!bench.shard.mayLackEvents(Bench.callID))
    var plain = Bench()
    Self.answeredCall(&plain, subscriptions: keepsEvents ? [] : .webhooks)
    #expect(bench.journal == plain.journal && bench.effects == plain.effects)
    bench.acknowledgeAll()
    bench.pass(.seconds(3600))
    #expect(bench.shard.callsUnrecorded == 0 && bench.shard.inspect(call: Bench.callID) == nil)
  }

  // MARK: Recorded

  @Test func theCallIsRecordedWhenAllPartsAreStored() {
    for recordFirst in [true, false] {
      var bench = Self.bench(keepsRecords: true)
      Self.answeredCall(&bench)
      let before = bench.journal.count
      func storeRecord() {
        bench.run { $0.stored(.record, of: [Bench.callID], now: $1, into: &$2) }
      }
      if recordFirst { storeRecord() } else { Self.store(&bench) }
      #expect(bench.journal.count == before, "a part is missing")
      #expect((bench.shard.record(of: Bench.callID) == nil) == recordFirst)
      #expect(bench.shard.events(of: Bench.callID, .all).isEmpty == !recordFirst)
      if recordFirst { Self.store(&bench) } else { storeRecord() }
      #expect(bench.journal.map(\.change).suffix(1) == [.recorded])
      #expect(bench.journal.count == before + 1)
      Self.store(&bench)
      #expect(bench.journal.count == before + 1, "once")
    }
  }

  @Test func eventsOfACallThatGoesOnDoNotRecordIt() {
    var bench = Self.bench()
    bench.attach("b1")
    Self.place(&bench)
    let before = bench.journal.count
    Self.store(&bench)
    #expect(bench.journal.count == before)
    bench.caller(.call(Bench.callID, .cancel))
    #expect(bench.shard.mayLackEvents(Bench.callID))
  }

  @Test func aCallIsKeptUntilItsEventsAreStored() {
    var bench = Self.bench()
    Self.answeredCall(&bench)
    bench.acknowledgeAll()
    bench.pass(.seconds(3600))
    #expect(bench.shard.callsUnrecorded == 1)
    #expect(bench.shard.events(of: Bench.callID, .all).count == 4)
    Self.store(&bench)
    #expect(bench.shard.inspect(call: Bench.callID) == nil && bench.shard.callsUnrecorded == 0)
  }

  @Test func aboveTheLimitACallIsForgottenAndCounted() {
    var limits = CallLimits()
    limits.unrecordedCalls = 0
    var bench = Self.bench(limits: limits)
    Self.answeredCall(&bench)
    bench.acknowledgeAll()
    bench.pass(.seconds(3600))
    #expect(bench.shard.counts.recordsLostTotal == 1)
    #expect(bench.shard.inspect(call: Bench.callID) == nil)
  }

  // MARK: A new owner

  private static func successor(_ bench: Bench, checkpoint: Bool) -> Bench {
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    next.shard.storedParts = .events
    return next.begun()
  }

  @Test(arguments: [false, true])
  func aNewOwnerAsksForAllAgain(checkpoint: Bool) {
    var bench = Self.bench()
    Self.answeredCall(&bench)
    let next = Self.successor(bench, checkpoint: checkpoint)
    #expect(Self.wanted(next.effects) == [Self.kinds(.placed, .ringing, .answered, .ended)])
    let (before, after) = (
      bench.shard.events(of: Bench.callID, .all), next.shard.events(of: Bench.callID, .all)
    )
    #expect(after.map(\.kind) == before.map(\.kind))
    #expect(after.map(\.by) == before.map(\.by))
    // The journal does not say when a device alerted; a checkpoint does.
    for (one, other) in zip(before, after) where checkpoint || one.kind != .ringing {
      #expect(one == other)
    }
  }

  @Test(arguments: [false, true])
  func aNewOwnerDoesNotAskForWhatIsStored(checkpoint: Bool) {
    var bench = Self.bench()
    Self.answeredCall(&bench)
    Self.store(&bench)
    #expect(Self.wanted(Self.successor(bench, checkpoint: checkpoint).effects).isEmpty)
  }

  /// A decision that the new owner makes at once comes behind those of its predecessor.
  @Test func whatATakeOverDecidesComesLast() {
    var bench = Self.bench()
    bench.attach("b1")
    Self.place(&bench)
    var next = bench.takenOver()
    next.shard.storedParts = .events
    // The ring timeout has passed meanwhile.
    next.now = next.now + .seconds(60)
    next = next.begun()
    next.pass(.seconds(60))
    #expect(
      Self.wanted(next.effects) == [Self.kinds(.placed), Self.kinds(.ended, .missed)])
  }

  @Test func aCallThatGoesOnIsAskedForAsFarAsItIs() {
    var bench = Self.bench()
    bench.attach("b1")
    Self.place(&bench)
    bench.say(.call(Bench.callID, .alerting), device: "b1")
    let next = Self.successor(bench, checkpoint: true)
    #expect(Self.wanted(next.effects).first == Self.kinds(.placed, .ringing))
  }
}
