import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

@Suite struct CheckpointStoreTests {
  func checkpoint(_ epoch: UInt64, _ sequence: UInt64, calls: Int = 3) -> Checkpoint {
    Checkpoint(
      sequence: sequence, epoch: epoch,
      entries: (0..<calls).map {
        JournalEntry(call: CallID(high: 1, low: UInt64($0)), change: .alerting(DeviceID("d\($0)")))
      })
  }

  func withStore(
    chunkBytes: Int = 64,
    _ body: (CheckpointStore, InProcessBus, InProcessBucket) async throws -> Void
  ) async throws {
    let bus = InProcessBus()
    let bucket = try await bus.openBucket("checkpoints", BucketOptions())
    try await body(CheckpointStore(bucket: bucket, chunkBytesMax: chunkBytes), bus, bucket)
    await bus.close()
  }

  @Test func aLargeOneIsReadBackFromItsChunks() async throws {
    try await withStore { store, _, bucket in
      #expect(try await store.read(shard: 3) == nil)
      let first = checkpoint(1, 10, calls: 100)
      try await store.write(first, shard: 3)
      #expect(try await store.read(shard: 3)?.0 == first)
      #expect(try await bucket.entries(matching: "3.>").count > 10)
      let second = checkpoint(1, 20, calls: 2)
      try await store.write(second, shard: 3)
      #expect(try await store.read(shard: 3)?.0 == second)
      // The former chunks are gone.
      #expect(try await bucket.entries(matching: "3.>").count < 10)
      #expect(try await store.read(shard: 4) == nil)
    }
  }

  @Test func anOldOneNeverReplacesANewer() async throws {
    try await withStore { store, _, _ in
      let newer = checkpoint(5, 200)
      try await store.write(newer, shard: 0)
      for older in [checkpoint(4, 300), checkpoint(5, 199)] {
        await #expect(throws: CheckpointStore.Failure.outdated) {
          try await store.write(older, shard: 0)
        }
      }
      #expect(try await store.read(shard: 0)?.0 == newer)
    }
  }

  /// The answer to the head's write was lost: whoever writes it again learns that it stands.
  @Test func theSameOneAgainIsWritten() async throws {
    try await withStore { store, bus, bucket in
      try await store.write(checkpoint(5, 100), shard: 0)
      bus.setFaults { faults in
        faults.onPut = { _, key in key == "0.head" ? .unknown(stored: true) : nil }
      }
      await #expect(throws: CheckpointStore.Failure.unavailable("a fault for tests")) {
        try await store.write(checkpoint(5, 200), shard: 0)
      }
      bus.setFaults { $0.onPut = nil }
      #expect(try await store.write(checkpoint(5, 200), shard: 0) == nil)
      #expect(try await store.read(shard: 0)?.0 == checkpoint(5, 200))
      #expect(try await store.write(checkpoint(5, 300), shard: 0)?.sequence == 200)
    }
  }

  /// A late head of the first attempt stands over chunks of the second, which are of another length.
  @Test func theSameOneAgainMendsWhatIsNotComplete() async throws {
    try await withStore { store, _, bucket in
      let whole = checkpoint(5, 200)
      let bytes = ClusterCodec.encode(whole).count
      try await store.write(whole, shard: 0)
      let late = CheckpointStore.Head(epoch: 5, sequence: 200, bytes: bytes + 1, chunks: 1)
      bucket.put("0.head", Array(late.text.utf8), expecting: nil) { _ in }
      await #expect(throws: CheckpointStore.Failure.unreadable("its checkpoint is not complete")) {
        try await store.read(shard: 0)
      }
      try await store.write(whole, shard: 0)
      #expect(try await store.read(shard: 0)?.0 == whole)
    }
  }

  /// Two write at once; one looked before the other wrote.
  @Test func aWriteBetweenLookAndWriteIsNoticed() async throws {
    try await withStore { store, bus, bucket in
      try await store.write(checkpoint(1, 10), shard: 0)
      let once = Once()
      let head = CheckpointStore.Head(epoch: 2, sequence: 99, bytes: 0, chunks: 0)
      bus.setFaults { faults in
        faults.onPut = { _, key in
          // The other's head comes before the chunk of ours.
          guard key != "0.head", once.first() else { return nil }
          bucket.put("0.head", Array(head.text.utf8), expecting: nil) { _ in }
          return nil
        }
      }
      await #expect(throws: CheckpointStore.Failure.outdated) {
        try await store.write(checkpoint(1, 20), shard: 0)
      }
      let entry = try await bucket.get("0.head")
      #expect(String(decoding: entry?.value ?? [], as: UTF8.self) == head.text)
      // An earlier attempt at the same checkpoint may be on its way, and name them.
      #expect(try await bucket.get("0.1.20.0") != nil)
    }
  }

  /// The answer to the head's write is lost, and it is made only while the next attempt writes.
  @Test func aLateHeadOfTheSameCheckpointKeepsItsChunks() async throws {
    try await withStore { store, bus, bucket in
      try await store.write(checkpoint(1, 10), shard: 0)
      let former = try await store.revision(shard: 0)
      let once = Once()
      let bytes = ClusterCodec.encode(checkpoint(1, 20)).count
      // As it was when the first attempt was made: shorter.
      let late = CheckpointStore.Head(epoch: 1, sequence: 20, bytes: bytes - 1, chunks: 1)
      bus.setFaults { faults in
        faults.onPut = { _, key in
          guard key != "0.head", once.first() else { return nil }
          bucket.put("0.head", Array(late.text.utf8), expecting: former) { _ in }
          return nil
        }
      }
      try await store.write(checkpoint(1, 20), shard: 0)
      #expect(try await store.read(shard: 0)?.0 == checkpoint(1, 20))
    }
  }

  /// A replicated bucket may take two heads that expect the same revision (seed 32,441 of callsim).
  @Test func anOlderHeadThatIsTakenLateFindsItsChunks() async throws {
    try await withStore { store, bus, bucket in
      try await store.write(checkpoint(2, 23), shard: 7)
      bus.setFaults { faults in
        faults.onPut = { _, key in key == "7.head" ? .unknown(stored: false) : nil }
      }
      let older = checkpoint(4, 50, calls: 1)
      await #expect(throws: CheckpointStore.Failure.unavailable("a fault for tests")) {
        try await store.write(older, shard: 7)
      }
      bus.setFaults { $0.onPut = nil }
      let replaced = try #require(try await store.write(checkpoint(5, 55), shard: 7))
      #expect((replaced.epoch, replaced.sequence) == (2, 23))
      try await store.sweep(shard: 7, before: replaced)
      let bytes = ClusterCodec.encode(older).count
      let late = CheckpointStore.Head(epoch: 4, sequence: 50, bytes: bytes, chunks: 1)
      bucket.put("7.head", Array(late.text.utf8), expecting: nil) { _ in }
      #expect(try await store.read(shard: 7)?.0 == older)
    }
  }

  /// Writers that died left chunks: one before its head, one behind the head and before the removal.
  @Test func chunksThatNoHeadNamesAreRemoved() async throws {
    try await withStore { store, _, bucket in
      try await store.write(checkpoint(2, 30), shard: 3)
      let newest = checkpoint(2, 40)
      let replaced = try #require(try await store.write(newest, shard: 3))
      let present = Set(try await bucket.entries(matching: "3.>").map(\.key))
      let orphans = ["3.1.5.0", "3.1.900.7", "3.2.29.0"]
      // Another owner's head may yet be taken, or is about to be written; the rest is not of this shard, or
      // no chunk.
      let others = ["3.2.31.0", "3.2.41.0", "3.3.1.0", "3.accept", "33.1.5.0"]
      for key in orphans + others { bucket.put(key, [1], expecting: nil) { _ in } }
      try await store.sweep(shard: 3, before: replaced)
      let left = Set(try await bucket.entries(matching: ">").map(\.key))
      #expect(left == present.union(others))
      #expect(try await store.read(shard: 3)?.0 == newest)
    }
  }

  @Test(arguments: ["", "1", "1 2 3 4", "2 1 1 1 1", "1 a 1 1 1", "1 1 1 -1 1", "1 1 1 1 99999999"])
  func aHeadThatIsNoneIsReported(text: String) async throws {
    try await withStore { store, bus, bucket in
      #expect(CheckpointStore.Head(text) == nil)
      bucket.put("0.head", Array(text.utf8), expecting: nil) { _ in }
      await #expect(throws: CheckpointStore.Failure.unreadable("the head of its checkpoint")) {
        try await store.read(shard: 0)
      }
    }
  }
}

@Suite struct CheckpointerTests {
  /// Whether it was written.
  private func write(
    _ checkpointer: Checkpointer, _ epoch: UInt64, _ sequence: UInt64
  ) async -> Bool {
    let machine = ShardMachine(shard: 0, epoch: epoch, limits: CallLimits())
    return await withCheckedContinuation { continuation in
      checkpointer.offer(
        CheckpointJob(shard: 0, epoch: epoch, sequence: sequence, snapshot: machine.snapshot) {
          continuation.resume(returning: $0)
        })
    }
  }

  @Test func whatFailedAttemptsLeaveIsRemoved() async throws {
    let bus = InProcessBus()
    let bucket = try await bus.openBucket("checkpoints", BucketOptions())
    let checkpointer = Checkpointer(
      store: CheckpointStore(bucket: bucket), journal: try await bus.openJournal(JournalOptions()),
      shardCount: 1, metrics: CoordinatorMetrics(MetricsRegistry()), logger: quietLogger())
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await checkpointer.run() }
      bucket.put("0.1.5.0", [1], expecting: nil) { _ in }
      for sequence: UInt64 in [10, 20, 30] { #expect(await write(checkpointer, 2, sequence)) }
      try await eventually("what a former owner left is gone") {
        try await bucket.get("0.1.5.0") == nil
      }
      bus.setFaults { faults in
        faults.onPut = { _, key in key == "0.head" ? .unknown(stored: false) : nil }
      }
      #expect(await !write(checkpointer, 2, 40))
      bus.setFaults { $0.onPut = nil }
      #expect(try await bucket.get("0.2.40.0") != nil)
      for sequence: UInt64 in [50, 60] { #expect(await write(checkpointer, 2, sequence)) }
      try await eventually("what the attempt left is gone") {
        Set(try await bucket.entries(matching: ">").map(\.key)) == ["0.head", "0.2.60.0"]
      }
      group.cancelAll()
    }
    await bus.close()
  }
}

@Suite struct EdgeOutboxTests {
  let subjects = Subjects(cluster: "test", shardCount: 4)

  func delivery(_ bytes: Int) -> EdgeItem.Body {
    .delivery(
      Delivery(
        call: CallID(high: 0, low: 1), callee: "b", version: 1, at: Timestamp(microseconds: 0),
        event: .signal(
          Signal(index: 1, kind: .candidate, body: String(repeating: "x", count: bytes)))))
  }

  @Test func eachEdgeGetsOneMessage() throws {
    var outbox = EdgeOutbox(subjects: subjects)
    for number in 0..<30 {
      outbox.add(
        SessionRef(edge: UInt64(number % 3), number: UInt64(number)),
        .reply(request: UInt64(number), .done))
    }
    let messages = outbox.drain()
    #expect(Set(messages.map(\.subject)) == Set((0..<3).map { subjects.replies(to: $0) }))
    #expect(messages.count == 3)
    for message in messages {
      let numbers = try ClusterCodec.edgeBatch(message.bytes).items.map(\.session)
      #expect(numbers == numbers.sorted() && numbers.count == 10)
    }
    #expect(outbox.isEmpty && outbox.drain().isEmpty)
  }

  @Test func noMessageOutgrowsTheServersLimit() throws {
    var outbox = EdgeOutbox(subjects: subjects)
    for number in UInt64(0)..<60 {
      outbox.add(SessionRef(edge: 1, number: number), delivery(60_000))
    }
    let messages = outbox.drain()
    #expect(messages.count > 5)
    #expect(messages.allSatisfy { $0.bytes.count < 512 * 1024 })
    let numbers = try messages.flatMap { try ClusterCodec.edgeBatch($0.bytes).items.map(\.session) }
    #expect(numbers == Array(UInt64(0)..<60))
  }
}
