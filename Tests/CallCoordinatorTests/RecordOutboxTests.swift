import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

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

/// A worker stores the records of its shards' calls.
@Suite struct WorkerRecordTests {
  private let call = CallID(high: 3, low: 4)

  private func stored(_ bench: WorkerBench) async throws -> [CallRecord] {
    let stream = try await bench.bus.openRecords(RecordOptions())
    guard let range = try await stream.range() else { return [] }
    return try await stream.messages(range).flatMap {
      try ClusterCodec.callRecords($0.bytes).records
    }
  }

  /// Ends at once: the callee has no device.
  private func placeUnreachable(_ bench: WorkerBench, _ call: CallID) {
    bench.edge.send(
      .place(PlaceRequest(call: call)), from: 2, .user("alice"), "a1", to: bench.user(0),
      request: call.low)
  }

  private func isJournalled(_ bench: WorkerBench) -> Bool {
    bench.journal.records.flatMap(\.entries).contains { $0.change == .recorded }
  }

  @Test func aRecordIsStoredBehindTheEndAndJournalled() async throws {
    try await WorkerBench(keepsRecords: true).run { bench in
      try await bench.adopt(0)
      bench.journal.hold()
      placeUnreachable(bench, call)
      try await eventually("the end waits for the journal") { bench.journal.waiting >= 1 }
      try await bench.flush()
      #expect(try await stored(bench).isEmpty)
      bench.journal.letGo()
      try await eventually("its record") { try await stored(bench).count == 1 }
      let record = try #require(try await stored(bench).first)
      #expect(record.call == call && record.end?.reason == .unreachable)
      try await eventually("it is a fact") { isJournalled(bench) }
      #expect(bench.metrics.recordsStored.value == 1)
      try await eventually("nothing waits") { bench.metrics.recordsWaiting.value == 0 }
    }
  }

  @Test func aStreamThatFailsIsAskedAgain() async throws {
    try await WorkerBench(keepsRecords: true).run { bench in
      try await bench.adopt(0)
      let ids = Mutex<[String]>([])
      bench.bus.setFaults {
        $0.onRecords = { id in
          ids.withLock { ids in
            ids.append(id)
            // The first is stored and its answer lost, the second is not stored.
            return ids.count == 1 ? .unknown(stored: true) : ids.count == 2 ? .refuse : nil
          }
        }
      }
      placeUnreachable(bench, call)
      try await eventually("it is a fact") { isJournalled(bench) }
      #expect(try await stored(bench).count == 1, "the stream knows the id")
      #expect(Set(ids.withLock { $0 }).count == 1)
      #expect(bench.metrics.recordMessagesFailed.value == 2)
    }
  }

  @Test func recordsThatAreOffCostNothing() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      placeUnreachable(bench, call)
      try await eventually("the call ends") {
        bench.edge.deliveries(to: 2).contains { if case .stop = $0.event { true } else { false } }
      }
      #expect(bench.metrics.recordsWaiting.value == 0)
      #expect(try await stored(bench).isEmpty && !isJournalled(bench))
    }
  }

  /// The owner before had not stored it.
  @Test func aNewOwnerStoresIt() async throws {
    try await WorkerBench(keepsRecords: true).run { bench in
      let first = try await bench.adopt(0)
      let holds = Mutex(true)
      bench.bus.setFaults {
        $0.onRecords = { _ in holds.withLock { $0 } ? .unknown(stored: false) : nil }
      }
      placeUnreachable(bench, call)
      try await eventually("an attempt") { bench.metrics.recordMessagesFailed.value > 0 }
      bench.worker.inbox.offer(.deposed(shard: 0, epoch: 2))
      try await eventually("it steps down") { bench.steppedDown == [first] }
      holds.withLock { $0 = false }
      try await bench.recover(0, epoch: 2)
      try await eventually("a fact of the new owner") { isJournalled(bench) }
      let calls = try await stored(bench).map(\.call)
      #expect(Set(calls) == [call], "perhaps twice, and readers drop the second")
    }
  }
}

extension WorkerBench {
  /// As `adopt`, with what the journal has.
  func recover(_ shard: Int, epoch: UInt64) async throws {
    let term = ShardTerm(shard: shard, epoch: epoch)
    let inbox = worker.inbox
    inbox.offer(.beginRecovery(term))
    var machine = ShardMachine(shard: shard, epoch: epoch, limits: CallLimits())
    let records = try await journal.records(shard: shard, from: 1, limit: 1000)
    for record in records {
      machine.replay(try ClusterCodec.journalRecord(record.bytes).entries, now: clock.now())
    }
    inbox.offer(
      .adopt(
        RecoveredShard(
          term: term, machine: machine, sequence: records.last?.sequence ?? 0,
          edges: KnownEdges(living: []))))
    try await eventually("shard \(shard) serves") { await serves(term) }
  }
}
