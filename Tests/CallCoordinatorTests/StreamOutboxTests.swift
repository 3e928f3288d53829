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
    // The shard has another owner, or the call is forgotten.
    add(item(4, .placed), "c", to: &outbox)
    #expect(outbox.next(now: start + .seconds(1), events: { _ in [] }).isEmpty)
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
    #expect(outbox.answered("a", first.number, isStored: true, now: now) == [item(1, .placed)])
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
}

/// A worker stores the events of its shards' devices.
@Suite struct WorkerEventTests {
  @Test func aTokenIsRemovedOnceTheStreamHasThatItIsGone() async throws {
    try await WorkerBench(keeping: [.events]).serve { bench in
      let bob = bench.user(0)
      _ = try await bench.register(bob, "b1", "t1")
      let refuses = Mutex(true)
      bench.bus.setFaults {
        $0.onAppStream = { _, _ in refuses.withLock { $0 } ? .refuse : nil }
      }
      let gateway = try bench.reportGone(of: CallID(high: 3, low: 4), hasWebhooks: true)
      try await eventually("the stream refuses") { bench.metrics.eventMessagesFailed.value >= 1 }
      #expect(await bench.voipToken(bob, "b1") == "t1")
      #expect(gateway.reply(to: 8, request: 8) == nil)
      refuses.withLock { $0 = false }
      try await eventually("its reply") { gateway.reply(to: 8, request: 8) == .done }
      #expect(await bench.voipToken(bob, "b1") == nil)
      let gone = try await bench.storedEvents().map(\.gone)
      #expect(gone.map { $0?.fingerprint } == ["fpt1"] && gone.first??.device == "b1")
      try await eventually("nothing waits") { bench.metrics.eventsWaiting.value == 0 }
    }
  }
}

/// Records that are due share a message, which is repeated until the stream has it.
@Suite struct RecordOutboxTests {
  private let start = Timestamp(microseconds: 1_000_000_000)
  private let term = ShardTerm(shard: 3, epoch: 1)

  private func item(_ number: UInt64) -> RecordOutbox.Item {
    RecordOutbox.Item(term: term, call: CallID(high: 1, low: number))
  }

  private func record(_ item: RecordOutbox.Item) -> CallRecord? {
    CallRecord(
      call: item.call, callee: UserKey(app: "demo", user: "bob"),
      caller: Party(user: "ann", device: "a1"), placedAt: start)
  }

  private func calls(_ message: RecordOutbox.Message?) throws -> [UInt64] {
    try message.map { try ClusterCodec.callRecords($0.bytes).records.map(\.call.low) } ?? []
  }

  @Test func thoseOfAQuarterOfASecondShareAMessage() throws {
    var outbox = RecordOutbox()
    #expect(outbox.nextDeadline == .distantFuture)
    outbox.add(item(1), now: start)
    outbox.add(item(2), now: start + .milliseconds(200))
    #expect(outbox.nextDeadline == start + RecordOutbox.delay)
    #expect(outbox.next(now: start + .milliseconds(249), record: record) == nil)
    let message = outbox.next(now: start + .milliseconds(250), record: record)
    #expect(try calls(message) == [1, 2])
    #expect(outbox.nextDeadline == .distantFuture && outbox.count == 2)
    #expect(
      outbox.answered(message?.number ?? 0, isStored: true, now: start) == [item(1), item(2)])
    #expect(outbox.count == 0)
  }

  @Test func oneMessageIsUnderWay() throws {
    var outbox = RecordOutbox()
    outbox.add(item(1), now: start)
    let next = outbox.next(now: start + .seconds(1), record: record)
    let first = try #require(next)
    outbox.add(item(2), now: start + .seconds(1))
    #expect(outbox.nextDeadline == .distantFuture)
    _ = outbox.answered(first.number, isStored: true, now: start + .seconds(2))
    let second = outbox.next(now: outbox.nextDeadline, record: record)
    #expect(try calls(second) == [2])
    #expect(second?.number == first.number + 1)
  }

  /// Under the same number, so that the stream recognises it.
  @Test func aFailedMessageIsRepeatedAsItIs() throws {
    var outbox = RecordOutbox()
    outbox.add(item(1), now: start)
    let next = outbox.next(now: start + .seconds(1), record: record)
    let first = try #require(next)
    var now = start + .seconds(1)
    var pauses: [Span] = []
    for _ in 0..<10 {
      #expect(outbox.answered(first.number, isStored: false, now: now).isEmpty)
      pauses.append(outbox.nextDeadline - now)
      outbox.add(item(9), now: now)
      now = outbox.nextDeadline
      #expect(outbox.next(now: now, record: { _ in nil }) == first)
    }
    #expect(pauses.prefix(3) == [.milliseconds(250), .milliseconds(500), .seconds(1)])
    #expect(pauses.max() == .seconds(10))
    #expect(outbox.answered(first.number, isStored: true, now: now) == [item(1)])
    #expect(outbox.answered(first.number, isStored: true, now: now).isEmpty, "once")
  }

  @Test func fullMessagesLeaveAtOnce() throws {
    var outbox = RecordOutbox()
    for number in 0..<UInt64(RecordOutbox.countMax + 10) { outbox.add(item(number), now: start) }
    #expect(outbox.nextDeadline == start)
    let message = outbox.next(now: start, record: record)
    #expect(try calls(message).count == RecordOutbox.countMax)
    #expect(outbox.answered(message?.number ?? 0, isStored: true, now: start).count == 200)
    #expect(outbox.nextDeadline == start + RecordOutbox.delay && outbox.count == 10)
  }

  @Test func aMessageHasALimitOfBytes() throws {
    var outbox = RecordOutbox()
    for number in 0..<100 { outbox.add(item(UInt64(number)), now: start) }
    let next = outbox.next(now: start + .seconds(1)) { item in
      var record = self.record(item)
      record?.caller.name = String(repeating: "x", count: 20_000)
      return record
    }
    let message = try #require(next)
    #expect(message.bytes.count > RecordOutbox.bytesMax - 21_000)
    #expect(message.bytes.count < RecordOutbox.bytesMax + 21_000)
  }

  /// The stream takes nothing for days: what shards keep no longer does not wait for ever.
  @Test func manyThatAreNotWantedAreDropped() {
    var outbox = RecordOutbox()
    for number in 0..<UInt64(RecordOutbox.compactLeast) {
      outbox.compact { _ in false }
      outbox.add(item(number), now: start)
    }
    #expect(outbox.count == RecordOutbox.compactLeast, "few are not looked at")
    outbox.compact { $0.call.low % 10 == 0 }
    #expect(outbox.count == RecordOutbox.compactLeast / 10)
  }

  /// The shard has another owner, or the call is forgotten.
  @Test func whatIsNotWantedIsLeftOut() {
    var outbox = RecordOutbox()
    outbox.add(item(1), now: start)
    #expect(outbox.next(now: start + .seconds(1), record: { _ in nil }) == nil)
    #expect(outbox.nextDeadline == .distantFuture && outbox.count == 0)
  }
}
