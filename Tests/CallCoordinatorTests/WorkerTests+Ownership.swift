import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

extension WorkerTests {
  @Test func whatHasArrivedIsSaidBeforeAShardParts() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0)
      bench.journal.hold()
      bench.query(1, shard: 0)
      try await eventually("the append waits") { bench.journal.waiting == 1 }
      let deadline = bench.clock.now() + .seconds(60)
      let inbox = bench.worker.inbox
      async let released = inbox.ask { .release(term, deadline: deadline, done: $0) }
      bench.journal.letGo()
      #expect(await released)
      try await eventually("the reply") { bench.isAnswered(1) }
      let last = try #require(try await bench.journal.last(shard: 0))
      let record = try ClusterCodec.journalRecord(last.bytes)
      #expect(record.released && record.epoch == 1)
      #expect(await !bench.worker.holds(0))
      #expect(bench.metrics.shards.value == 0)
    }
  }

  @Test func aReleaseThatTakesTooLongEndsInSilence() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0)
      bench.journal.hold()
      bench.query(1, shard: 0)
      try await eventually("the append waits") { bench.journal.waiting == 1 }
      let deadline = bench.clock.now()
      #expect(await !bench.worker.inbox.ask { .release(term, deadline: deadline, done: $0) })
      bench.journal.letGo()
      try await bench.flush()
      // The worker reports it behind the answer to who asked for the release.
      try await eventually("the manager hears of it") { bench.steppedDown == [term] }
      #expect(!bench.isAnswered(1))
    }
  }

  @Test func aShardThatWasLostWhileItWasTendedServesAgain() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0)
      bench.journal.hold()
      bench.query(1, shard: 0)
      try await eventually("the append waits") { bench.journal.waiting == 1 }
      let deadline = bench.clock.now()
      #expect(await !bench.worker.inbox.ask { .release(term, deadline: deadline, done: $0) })
      bench.journal.letGo()
      try await bench.flush()
      try await bench.adopt(0, epoch: 2)
      bench.query(2, shard: 0)
      try await eventually("the reply") { bench.isAnswered(2) }
    }
  }

  /// Else the claim counts as a success, and no node serves the shard.
  @Test func aTermThatIsLostBeforeItsRecoveryEndsIsReported() async throws {
    try await WorkerBench().run { bench in
      let term = ShardTerm(shard: 0, epoch: 1)
      let inbox = bench.worker.inbox
      inbox.offer(.beginRecovery(term))
      inbox.offer(.deposed(shard: 0, epoch: 2))
      inbox.offer(
        .adopt(
          RecoveredShard(
            term: term, machine: ShardMachine(shard: 0, epoch: 1, limits: CallLimits()),
            sequence: 0, edges: KnownEdges(living: []))))
      try await eventually("the manager hears of it") { bench.steppedDown == [term] }
      #expect(await !bench.worker.holds(0))
    }
  }

  @Test func anotherOwnersLeaseEndsOnlyEarlierTerms() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0, epoch: 4)
      bench.worker.inbox.offer(.deposed(shard: 0, epoch: 4))
      bench.query(1, shard: 0)
      try await eventually("the reply") { bench.isAnswered(1) }
      bench.worker.inbox.offer(.deposed(shard: 0, epoch: 5))
      try await eventually("it steps down") { bench.steppedDown == [term] }
    }
  }

  @Test func whatCannotBeReadIsCountedAndDropped() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      bench.bus.publish(bench.subjects.commands(shard: 0), [0xff, 0xff, 0xff])
      bench.query(1, shard: 0)
      try await eventually("the reply") { bench.isAnswered(1) }
      #expect(bench.metrics.commandBatchesUnreadable.value == 1)
    }
  }

  /// It does not know all sessions: who is called may well be attached.
  @Test func aShardThatIsReleasedBeforeItBeganDecidesNothing() async throws {
    try await WorkerBench({ $0.announceTimeout = .seconds(600) }).run { bench in
      let inbox = bench.worker.inbox
      let term = ShardTerm(shard: 0, epoch: 1)
      inbox.offer(.beginRecovery(term))
      inbox.offer(
        .adopt(
          RecoveredShard(
            term: term, machine: ShardMachine(shard: 0, epoch: 1, limits: CallLimits()),
            sequence: 0, edges: KnownEdges(living: [999]))))
      let parted = Parted()
      inbox.offer(.release(term, deadline: bench.clock.now() + .seconds(600)) { parted.say($0) })
      let call = CallID(high: 9, low: 9)
      let batch = CommandBatch(
        edge: bench.edge.number,
        commands: [
          Command(
            session: bench.edge.session(5), request: 1, user: .user("caller"), device: "phone",
            callee: bench.user(0), body: .place(PlaceRequest(call: call)))
        ])
      inbox.offerCommands(shard: 0, encoded(batch))
      try await eventually("it is given up") { parted.said != nil }
      #expect(parted.said == true)
      try await bench.flush()
      #expect(bench.edge.reply(to: 5, request: 1) == nil, "the next owner decides it")
      #expect(bench.journal.records.flatMap(\.entries).isEmpty)
    }
  }

  /// Policy: commands are refused and counted, what the node says to itself is not.
  @Test func aFullInboxRefusesCommandsOnly() async throws {
    let bench = try await WorkerBench { $0.commandBatchesMax = 3 }
    let inbox = bench.worker.inbox
    for _ in 0..<5 { inbox.offerCommands(shard: 0, parcel(of: 0)) }
    for edge in 0..<5 { inbox.offer(.edgeLost(UInt64(edge), awaitedUntil: .distantFuture)) }
    #expect(inbox.depth == 8)
    #expect(bench.metrics.commandBatchesDropped.value == 2)
    await bench.bus.close()
  }

  /// Commands that an edge retransmits when it is asked for its sessions come in the right order. Commands that came
  /// before may lack their beginning.
  @Test func whatIsSaidAgainTakesItsNewPlace() async throws {
    try await WorkerBench().run { bench in
      let term = ShardTerm(shard: 0, epoch: 1)
      let inbox = bench.worker.inbox
      let user = bench.user(0)
      let call = CallID(high: 9, low: 9)
      func say(_ body: Command.Body, _ request: UInt64) {
        let command = Command(
          session: bench.edge.session(5), request: request, user: .user("caller"),
          device: "phone", callee: user, body: body)
        inbox.offerCommands(
          shard: 0, encoded(CommandBatch(edge: bench.edge.number, commands: [command])))
      }
      inbox.offer(.beginRecovery(term))
      // The `place` before it went to the former owner.
      say(.call(call, .signal(.candidate, body: "c")), 2)
      say(.place(PlaceRequest(call: call)), 1)
      say(.call(call, .signal(.candidate, body: "c")), 2)
      inbox.offer(
        .adopt(
          RecoveredShard(
            term: term, machine: ShardMachine(shard: 0, epoch: 1, limits: CallLimits()),
            sequence: 0, edges: KnownEdges(living: [bench.edge.number]))))
      inbox.offer(
        .announceDone(shard: 0, AnnounceDone(shard: 0, epoch: 1, edge: bench.edge.number)))
      try await eventually("a reply to both") {
        bench.edge.reply(to: 5, request: 1) != nil && bench.edge.reply(to: 5, request: 2) != nil
      }
      for item in bench.edge.items {
        if case .reply(2, .error(let error)) = item.body {
          #expect(error.code != .unknownCall)
        }
      }
    }
  }

  @Test func commandsWaitForARecovery() async throws {
    try await WorkerBench({ $0.queuedCommandsMax = 2 }).run { bench in
      let term = ShardTerm(shard: 0, epoch: 1)
      let inbox = bench.worker.inbox
      inbox.offer(.beginRecovery(term))
      try await eventually("it is subscribed") {
        await bench.worker.status().contains { $0.shard == 0 }
      }
      for request in 1...3 { bench.query(UInt64(request), shard: 0) }
      try await eventually("one is dropped") { bench.metrics.commandsDropped.value == 1 }
      inbox.offer(
        .adopt(
          RecoveredShard(
            term: term, machine: ShardMachine(shard: 0, epoch: 1, limits: CallLimits()),
            sequence: 0, edges: KnownEdges(living: []))))
      try await eventually("two replies") { bench.isAnswered(1) && bench.isAnswered(2) }
      #expect(!bench.isAnswered(3))
    }
  }
}

/// The result that the end of a release reported.
private final class Parted: Sendable {
  private let state = Mutex<Bool?>(nil)
  var said: Bool? { state.withLock { $0 } }
  func say(_ ok: Bool) { state.withLock { $0 = ok } }
}
