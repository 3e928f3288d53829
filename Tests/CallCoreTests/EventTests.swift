import CallCore
import Testing

/// Events of calls for webhooks: each fact is one, each is asked for once, and a new owner asks for all again.
@Suite struct EventTests {
  /// Alice has called b1, in a shard that keeps events.
  private static func ringing() -> Bench {
    var bench = HistoryTests.bench(keeps: .events)
    bench.attach("b1")
    HistoryTests.place(&bench, subscriptions: .webhooks)
    return bench
  }

  /// b1 and b2 ring, b1 answers, and the caller hangs up.
  private static func answeredCall(
    keeps: StoredParts = .events, subscriptions: Subscriptions = .webhooks
  ) -> Bench {
    var bench = HistoryTests.bench(keeps: keeps)
    bench.attach("b1", "b2")
    HistoryTests.place(&bench, subscriptions: subscriptions)
    bench.pass(.milliseconds(100))
    bench.acknowledgeAll()
    bench.say(.alerting, "b1")
    bench.pass(.milliseconds(50))
    bench.say(.alerting, "b2")
    bench.pass(.seconds(1))
    bench.say(.answer(description: "sdp"), "b1")
    bench.acknowledgeAll()
    bench.caller(.connected)
    bench.say(.connected, "b1")
    bench.pass(.seconds(5))
    bench.caller(.hangUp)
    return bench
  }

  /// The events of the call, in the order in which the effects leave.
  private static func wanted(_ bench: Bench) -> [[AppEventKind]] {
    bench.effects.compactMap { effect in
      guard case .events(Bench.callID, let kinds) = effect else { return nil }
      return AppEventKind.allCases.filter { kinds.contains(AppEventKinds($0)) }
    }
  }

  private static func events(_ bench: Bench) -> [AppEvent] {
    bench.shard.events(of: Bench.callID, .all)
  }

  @Test func anAnsweredCall() throws {
    let bench = Self.answeredCall()
    #expect(Self.wanted(bench) == [[.placed], [.ringing], [.answered], [.ended]])
    let events = Self.events(bench)
    try #require(events.map(\.kind) == [.placed, .ringing, .answered, .ended])
    let start = events[0].placedAt
    #expect(events.allSatisfy { $0.placedAt == start && $0.caller.user == "alice" })
    #expect(events.allSatisfy { $0.callee == HistoryTests.bob })
    #expect(events.map(\.at) == [0, 100, 1150, 6150].map { start + .milliseconds($0) })
    #expect(events.map(\.by?.device) == [nil, "b1", "b1", "alice1"])
    #expect(events.map(\.reason) == [nil, nil, nil, .hungUp] && !events[3].missed)
    #expect(events[3].answeredAt == events[2].at && events[2].answeredAt == nil)
  }

  @Test func aMissedCall() {
    var bench = Self.ringing()
    bench.caller(.cancel)
    #expect(Self.wanted(bench) == [[.placed], [.ended, .missed]])
    let events = Self.events(bench)
    #expect(events.map(\.kind) == [.placed, .ended, .missed])
    #expect(events.last?.reason == .cancelled && events.last?.missed == true)
    #expect(bench.shard.events(of: Bench.callID, AppEventKinds(.missed)).count == 1)
  }

  @Test func aDeclinedCallIsNotMissed() {
    var bench = Self.ringing()
    bench.say(.decline(.everywhere), "b1")
    #expect(Self.events(bench).map(\.kind) == [.placed, .ended])
  }

  /// No effect and no byte of the journal.
  @Test(arguments: [(.events, []), ([], .webhooks)] as [(StoredParts, Subscriptions)])
  func otherCallsPayNothing(keeps: StoredParts, subscriptions: Subscriptions) {
    var bench = Self.answeredCall(keeps: keeps, subscriptions: subscriptions)
    #expect(Self.wanted(bench).isEmpty && Self.events(bench).isEmpty)
    #expect(!bench.shard.mayLackEvents(Bench.callID))
    let plain = Self.answeredCall(keeps: [], subscriptions: subscriptions)
    #expect(bench.journal == plain.journal && bench.effects == plain.effects)
    bench.acknowledgeAll()
    bench.pass(.seconds(3600))
    #expect(bench.shard.callsUnrecorded == 0 && bench.shard.inspect(call: Bench.callID) == nil)
  }

  @Test func eventsOfACallThatGoesOnDoNotRecordIt() {
    var bench = Self.ringing()
    let before = bench.journal.count
    HistoryTests.store(.events, &bench)
    #expect(bench.journal.count == before)
    bench.caller(.cancel)
    #expect(bench.shard.mayLackEvents(Bench.callID))
  }

  // MARK: A new owner

  private static func successor(_ bench: Bench, checkpoint: Bool) -> Bench {
    var next = checkpoint ? bench.restoredFromCheckpoint() : bench.takenOver()
    next.shard.storedParts = .events
    return next.begun()
  }

  @Test(arguments: [false, true]) func aNewOwnerAsksForAllAgainUnlessItIsStored(checkpoint: Bool) {
    var bench = Self.answeredCall()
    let next = Self.successor(bench, checkpoint: checkpoint)
    #expect(Self.wanted(next) == [[.placed, .ringing, .answered, .ended]])
    let (before, after) = (Self.events(bench), Self.events(next))
    #expect(after.map(\.kind) == before.map(\.kind))
    #expect(after.map(\.by) == before.map(\.by))
    // The journal does not say when a device alerted; a checkpoint does.
    for (one, other) in zip(before, after) where checkpoint || one.kind != .ringing {
      #expect(one == other)
    }
    HistoryTests.store(.events, &bench)
    #expect(Self.wanted(Self.successor(bench, checkpoint: checkpoint)).isEmpty)
  }

  @Test func aCallThatGoesOnIsAskedForAsFarAsItIs() {
    var bench = Self.ringing()
    bench.say(.alerting, "b1")
    let next = Self.successor(bench, checkpoint: true)
    #expect(Self.wanted(next).first == [.placed, .ringing])
  }

  /// A decision that the new owner makes at once comes behind those of its predecessor.
  @Test func whatATakeOverDecidesComesLast() {
    var next = Self.ringing().takenOver()
    next.shard.storedParts = .events
    // The ring timeout has passed meanwhile.
    next.now = next.now + .seconds(60)
    next = next.begun()
    next.pass(.seconds(60))
    #expect(Self.wanted(next) == [[.placed], [.ended, .missed]])
  }
}
