import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

extension WorkerTests {
  @Test func whatHasArrivedIsSaidBeforeAShardParts() async throws {
    try await WorkerBench().serve { bench in
      try await bench.queryThatWaits(1)
      let deadline = bench.clock.now() + .seconds(60)
      let inbox = bench.worker.inbox
      async let released = inbox.ask { .release(WorkerBench.term, deadline: deadline, done: $0) }
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
    try await WorkerBench().serve { bench in
      try await bench.queryThatWaits(1)
      let deadline = bench.clock.now()
      #expect(
        await !bench.worker.inbox.ask {
          .release(WorkerBench.term, deadline: deadline, done: $0)
        })
      bench.journal.letGo()
      try await bench.flush()
      // The worker reports it behind the answer to who asked for the release.
      try await bench.stepsDown()
      #expect(!bench.isAnswered(1))
      // The worker may own the shard again.
      try await bench.adopt(0, epoch: 2)
      try await bench.ask(2)
    }
  }

  /// Else the claim counts as a success, and no node serves the shard.
  @Test func aTermThatIsLostBeforeItsRecoveryEndsIsReported() async throws {
    try await WorkerBench().run { bench in
      let term = WorkerBench.term
      let inbox = bench.worker.inbox
      inbox.offer(.beginRecovery(term))
      inbox.offer(.deposed(shard: 0, epoch: 2))
      bench.recovered(term)
      try await bench.stepsDown()
      #expect(await !bench.worker.holds(0))
    }
  }

  @Test func anotherOwnersLeaseEndsOnlyEarlierTerms() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0, epoch: 4)
      bench.worker.inbox.offer(.deposed(shard: 0, epoch: 4))
      try await bench.ask(1)
      bench.worker.inbox.offer(.deposed(shard: 0, epoch: 5))
      try await bench.stepsDown(term)
    }
  }

  @Test func whatCannotBeReadIsCountedAndDropped() async throws {
    try await WorkerBench().serve { bench in
      bench.bus.publish(bench.subjects.commands(shard: 0), [0xff, 0xff, 0xff])
      try await bench.ask(1)
      #expect(bench.metrics.commandBatchesUnreadable.value == 1)
    }
  }

  private var call: CallID { CallID(high: 9, low: 9) }

  /// A caller's command, as it comes from the bus.
  private func say(_ body: Command.Body, _ request: UInt64, to bench: WorkerBench) {
    let command = Command(
      session: bench.edge.session(5), request: request, user: .user("caller"), device: "phone",
      callee: bench.user(0), body: body)
    let batch = CommandBatch(edge: bench.edge.number, commands: [command])
    bench.worker.inbox.offerCommands(
      shard: 0, CommandParcel(encoded: ClusterCodec.encode(batch), from: .edges))
  }

  /// It does not know all sessions: who is called may well be attached.
  @Test func aShardThatIsReleasedBeforeItBeganDecidesNothing() async throws {
    try await WorkerBench({ $0.announceTimeout = .seconds(600) }).run { bench in
      let inbox = bench.worker.inbox
      let term = WorkerBench.term
      inbox.offer(.beginRecovery(term))
      bench.recovered(term, living: [999])
      let parted = Inbox<Bool>(capacity: 1)
      let deadline = bench.clock.now() + .seconds(600)
      inbox.offer(.release(term, deadline: deadline) { parted.offer($0) })
      say(.place(PlaceRequest(call: call)), 1, to: bench)
      #expect(await parted.next(until: .now + .seconds(60)) == [true])
      try await bench.flush()
      #expect(bench.edge.reply(to: 5, request: 1) == nil, "the next owner decides it")
      #expect(bench.journal.records.flatMap(\.entries).isEmpty)
    }
  }

  /// Commands that an edge retransmits when it is asked for its sessions come in the right order. Commands that came
  /// before may lack their beginning.
  @Test func whatIsSaidAgainTakesItsNewPlace() async throws {
    try await WorkerBench().run { bench in
      let term = WorkerBench.term
      let inbox = bench.worker.inbox
      inbox.offer(.beginRecovery(term))
      // The `place` before it went to the former owner.
      say(.call(call, .signal(.candidate, body: "c")), 2, to: bench)
      say(.place(PlaceRequest(call: call)), 1, to: bench)
      say(.call(call, .signal(.candidate, body: "c")), 2, to: bench)
      bench.recovered(term, living: [bench.edge.number])
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
      bench.worker.inbox.offer(.beginRecovery(WorkerBench.term))
      try await eventually("it is subscribed") {
        await bench.worker.status().contains { $0.shard == 0 }
      }
      for request in UInt64(1)...3 { bench.query(request) }
      try await eventually("one is dropped") { bench.metrics.commandsDropped.value == 1 }
      bench.recovered(WorkerBench.term)
      try await eventually("two replies") { bench.isAnswered(1) && bench.isAnswered(2) }
      #expect(!bench.isAnswered(3))
    }
  }
}
