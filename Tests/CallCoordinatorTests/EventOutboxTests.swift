import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

/// Events that are due share a message with those of the same app, which is repeated until the stream has it.
@Suite struct EventOutboxTests {
  private let start = Timestamp(microseconds: 1_000_000_000)

  private func item(_ call: UInt64, _ kinds: AppEventKind...) -> EventOutbox.Item {
    .call(
      ShardCall(term: ShardTerm(shard: 3, epoch: 1), call: CallID(high: 1, low: call)),
      AppEventKinds(kinds.map { AppEventKinds($0) }))
  }

  private func events(_ item: EventOutbox.Item) -> [AppEvent] {
    guard case .call(let call, let kinds) = item else { return [] }
    return AppEventKind.allCases.filter { kinds.contains($0) }.map {
      AppEvent(
        call: call.call, kind: $0, at: start, callee: UserKey(app: "demo", user: "bob"),
        caller: Party(user: "ann", device: "a1"), video: false, placedAt: start)
    }
  }

  private func names(_ message: EventOutbox.Lane.Message) throws -> [String] {
    try ClusterCodec.appEvents(message.bytes).events.map {
      $0.map { "\($0.call.low) \($0.kind.name)" } ?? "?"
    }
  }

  private func add(_ item: EventOutbox.Item, _ app: String, to outbox: inout EventOutbox) {
    outbox.add(item, app: app, now: start) { _ in true }
  }

  @Test func eachAppHasItsMessages() throws {
    var outbox = EventOutbox()
    #expect(outbox.nextDeadline == .distantFuture)
    add(item(1, .placed), "b", to: &outbox)
    add(item(2, .placed), "a", to: &outbox)
    add(item(1, .ended, .missed), "b", to: &outbox)
    #expect(outbox.count == 3 && outbox.nextDeadline == start + EventOutbox.delay)
    #expect(outbox.next(now: start, events: events).isEmpty)
    let messages = outbox.next(now: start + EventOutbox.delay, events: events)
    #expect(messages.map(\.app) == ["a", "b"])
    #expect(try names(messages[0].message) == ["2 placed"])
    #expect(try names(messages[1].message) == ["1 placed", "1 ended", "1 missed"])
    #expect(outbox.count == 3 && outbox.nextDeadline == .distantFuture)
  }

  @Test func oneAppsFailureDelaysNoOther() throws {
    var outbox = EventOutbox()
    add(item(1, .placed), "a", to: &outbox)
    add(item(2, .placed), "b", to: &outbox)
    let now = start + .seconds(1)
    let messages = outbox.next(now: now, events: events)
    let (first, second) = (messages[0].message, messages[1].message)
    #expect(outbox.answered("a", first.number, isStored: false, now: now).isEmpty)
    #expect(outbox.answered("b", second.number, isStored: true, now: now) == [item(2, .placed)])
    #expect(outbox.nextDeadline == now + .milliseconds(250))
    let again = outbox.next(now: now + .milliseconds(250)) { _ in [] }
    #expect(again.map(\.message) == [first], "as it was")
    #expect(
      outbox.answered("a", first.number, isStored: true, now: now) == [item(1, .placed)])
    #expect(outbox.count == 0)
  }

  /// A shard keeps nothing more of a device's event: it is the item.
  @Test func eventsOfDevices() throws {
    var outbox = EventOutbox()
    let gone = AppEvent(
      GoneRegistration(
        device: "b1", provider: .fcm, isVoIP: false, fingerprint: "fp", registeredAt: start),
      of: UserKey(app: "demo", user: "bob"), at: start)
    let item = EventOutbox.Item.device(ShardTerm(shard: 3, epoch: 1), gone, token: 7)
    add(self.item(1, .placed), "demo", to: &outbox)
    add(item, "demo", to: &outbox)
    let now = start + .seconds(1)
    let messages = outbox.next(now: now) { item in
      if case .device(_, let event, _) = item { [event] } else { events(item) }
    }
    let message = try #require(messages.first?.message)
    #expect(try names(message) == ["1 placed", "0 gone"])
    #expect(try ClusterCodec.appEvents(message.bytes).events.last == gone)
    let stored = outbox.answered("demo", message.number, isStored: true, now: now)
    #expect(stored == [self.item(1, .placed), item])
  }

  /// The shard has another owner, or the call is forgotten.
  @Test func whatIsNotWantedIsLeftOut() {
    var outbox = EventOutbox()
    add(item(1, .placed), "a", to: &outbox)
    #expect(outbox.next(now: start + .seconds(1), events: { _ in [] }).isEmpty)
    #expect(outbox.count == 0 && outbox.nextDeadline == .distantFuture)
  }
}

/// A worker stores the events of its shards' calls.
@Suite struct WorkerEventTests {
  private func stored(_ bench: WorkerBench) async throws -> [AppEvent] {
    let stream = try await bench.bus.openAppStream(.events, .events)
    var (found, sequence): ([AppEvent], UInt64) = ([], 1)
    while let message = try await stream.next(of: bench.user(0).app, from: sequence) {
      found += try ClusterCodec.appEvents(message.bytes).events.compactMap(\.self)
      sequence = message.sequence + 1
    }
    return found
  }

  /// Ends at once: the callee has no device.
  private func placeUnreachable(
    _ bench: WorkerBench, _ call: CallID, subscriptions: Subscriptions = .webhooks
  ) {
    bench.edge.send(
      .place(PlaceRequest(call: call, subscriptions: subscriptions)), from: 2, .user("alice"), "a1",
      to: bench.user(0), request: call.low)
  }

  private func isJournalled(_ bench: WorkerBench) -> Bool {
    bench.journal.records.flatMap(\.entries).contains { $0.change == .recorded }
  }

  private let call = CallID(high: 3, low: 4)

  @Test func eventsAreStoredBehindTheJournalAndThenRecorded() async throws {
    try await WorkerBench(keepsEvents: true).run { bench in
      try await bench.adopt(0)
      bench.journal.hold()
      placeUnreachable(bench, call)
      try await eventually("the end waits for the journal") { bench.journal.waiting >= 1 }
      try await bench.flush()
      #expect(try await stored(bench).isEmpty)
      bench.journal.letGo()
      try await eventually("it is a fact") { isJournalled(bench) }
      let kinds = try await stored(bench).map(\.kind)
      #expect(Array(kinds.prefix(2)) == [.placed, .ended])
      try await eventually("nothing waits") { bench.metrics.eventsWaiting.value == 0 }
    }
  }

  @Test func aStreamThatFailsIsAskedAgain() async throws {
    try await WorkerBench(keepsEvents: true).run { bench in
      try await bench.adopt(0)
      let ids = Mutex<[String]>([])
      bench.bus.setFaults {
        $0.onAppStream = { _, id in
          ids.withLock { ids in
            ids.append(id)
            // The first is stored and its answer lost, the second is not stored.
            return ids.count == 1 ? .unknown(stored: true) : ids.count == 2 ? .refuse : nil
          }
        }
      }
      placeUnreachable(bench, call)
      try await eventually("it is a fact") { isJournalled(bench) }
      #expect(Set(ids.withLock { $0 }.prefix(3)).count == 1, "the stream knows the id")
      #expect(try await stored(bench).filter { $0.kind == .placed }.count == 1)
      #expect(bench.metrics.eventMessagesFailed.value == 2)
    }
  }

  @Test func callsOfOtherAppsHaveNone() async throws {
    try await WorkerBench(keepsEvents: true).run { bench in
      try await bench.adopt(0)
      placeUnreachable(bench, call, subscriptions: [])
      try await eventually("the call ends") {
        bench.edge.deliveries(to: 2).contains { if case .stop = $0.event { true } else { false } }
      }
      #expect(bench.metrics.eventsWaiting.value == 0)
      #expect(try await stored(bench).isEmpty && !isJournalled(bench))
    }
  }

  /// A gateway's report that the token of `b1` is gone. It stands apart from the test, because the compiler's optimiser
  /// (6.3.1) cannot split a coroutine that holds all of this.
  @inline(never)
  private func reportGone(_ bench: WorkerBench) throws -> FakeEdge {
    let gateway = try FakeEdge(
      1234, bench.bus, shards: WorkerBench.shards, clock: bench.clock, announces: false)
    let report = PushReport(
      call: call, device: "b1", purpose: .ring, fingerprint: "fpt1", outcome: .tokenGone(at: nil),
      at: bench.clock.now() + .seconds(60), hasWebhooks: true)
    let command = Command(
      session: SessionRef(edge: 1234, number: 8), request: 8, user: bench.user(0), device: "b1",
      callee: bench.user(0), body: .pushReport(report))
    bench.bus.publish(
      CommandSource.gateways.subject(of: 0, bench.subjects),
      ClusterCodec.encode(CommandBatch(peer: 1234, commands: [command])))
    return gateway
  }

  @Test func aTokenIsRemovedOnceTheStreamHasThatItIsGone() async throws {
    try await WorkerBench(keepsEvents: true).run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      _ = try await bench.register(bob, "b1", "t1")
      let refuses = Mutex(true)
      bench.bus.setFaults {
        $0.onAppStream = { _, _ in refuses.withLock { $0 } ? .refuse : nil }
      }
      let gateway = try reportGone(bench)
      try await eventually("the stream refuses") { bench.metrics.eventMessagesFailed.value >= 1 }
      #expect(await bench.voipToken(bob, "b1") == "t1")
      #expect(gateway.reply(to: 8, request: 8) == nil)
      refuses.withLock { $0 = false }
      try await eventually("its reply") { gateway.reply(to: 8, request: 8) == .done }
      #expect(await bench.voipToken(bob, "b1") == nil)
      let gone = try await stored(bench).map(\.gone)
      #expect(gone.map { $0?.fingerprint } == ["fpt1"] && gone.first??.device == "b1")
      try await eventually("nothing waits") { bench.metrics.eventsWaiting.value == 0 }
    }
  }
}
