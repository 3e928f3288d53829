import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

/// Every queue of a coordinator has a limit, a gauge and a counter of what it dropped; nothing that was decided
/// is dropped.
@Suite struct QueueLimitTests {
  /// The journal is stuck: the shard takes no further commands. When it goes on, what was taken is answered,
  /// and what was not is answered when it is retransmitted.
  @Test func aShardThatCannotWriteTakesNoCommands() async throws {
    try await WorkerBench {
      $0.pipelineLimits = CommitPipeline.Limits(effectsMax: 3)
    }.serve(0..<2) { bench in
      bench.journal.hold()
      for request in 1...8 { bench.query(UInt64(request), shard: 0) }
      try await eventually("five are refused") { bench.metrics.commandsRefused.value == 5 }
      try await eventually("three wait") { bench.metrics.heldBack.value == 3 }
      // Nobody retransmits these, so they are taken; they decide little.
      bench.edge.send(
        .sessionClosed(graceful: true), from: 9, bench.user(0), "d9", to: bench.user(0), request: 0)
      bench.query(20, shard: 1)
      try await eventually("the other shard decides") { bench.metrics.heldBack.value >= 4 }
      #expect(bench.metrics.commandsRefused.value == 5)
      try await bench.flush()
      #expect(!(1...8).contains { bench.isAnswered($0) })
      bench.journal.letGo()
      try await eventually("the first are answered") { (1...3).allSatisfy { bench.isAnswered($0) } }
      try await bench.flush()
      #expect(!(4...8).contains { bench.isAnswered($0) })
      for request in 4...5 { bench.query(UInt64(request), shard: 0) }
      try await eventually("retransmitted") { bench.isAnswered(4) && bench.isAnswered(5) }
      try await eventually("nothing waits") { bench.metrics.heldBack.value == 0 }
      try await eventually("nor a byte") { bench.metrics.bytesHeldBack.value == 0 }
      #expect(bench.steppedDown.isEmpty)
    }
  }

  /// Another owner came while the shard was full: nothing of what waited is said.
  @Test func aFullShardThatLosesItsJournalSaysNothing() async throws {
    try await WorkerBench {
      $0.pipelineLimits = CommitPipeline.Limits(effectsMax: 2)
    }.serve { bench in
      bench.journal.hold()
      for request in UInt64(1)...4 { bench.query(request) }
      try await eventually("two are refused") { bench.metrics.commandsRefused.value == 2 }
      try await bench.depose()
      bench.journal.letGo()
      try await bench.flush()
      #expect(!(1...4).contains { bench.isAnswered($0) })
      try await eventually("nothing waits") { bench.metrics.heldBack.value == 0 }
    }
  }

  @Test func theRecoveryQueueIsLimitedByItsBytes() async throws {
    try await WorkerBench({ $0.queuedBytesMax = 100 }).run { bench in
      let inbox = bench.worker.inbox
      inbox.offer(.beginRecovery(WorkerBench.term))
      for _ in 0..<3 { inbox.offerCommands(shard: 0, parcel(of: 40)) }
      inbox.wake()
      try await eventually("one is dropped") { bench.metrics.commandsDropped.value == 1 }
      try await eventually("two wait") { bench.metrics.recoveryQueue.value == 2 }
      inbox.offer(.abandon(WorkerBench.term))
      try await eventually("the queue is gone") { bench.metrics.recoveryQueue.value == 0 }
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

  /// Also by those of batches that an edge of the process hands over, which have no bytes yet.
  @Test(arguments: [false, true]) func theInboxIsLimitedByItsBytes(isLocal: Bool) async throws {
    let bench = try await WorkerBench { $0.commandBytesMax = isLocal ? 300 : 100 }
    let inbox = bench.worker.inbox
    let batch = isLocal ? CommandParcel(local: LocalEdgeTests.query(1, bench)) : parcel(of: 60)
    if isLocal { #expect(batch.bytes > 100) }
    for _ in 0..<4 { inbox.offerCommands(shard: 0, batch) }
    #expect(inbox.depth == 2)
    #expect(bench.metrics.commandBatchesDropped.value == 2)
    inbox.took(await inbox.events.next(until: nil))
    inbox.offerCommands(shard: 0, batch)
    #expect(inbox.depth == 1)
    await bench.bus.close()
  }
}
