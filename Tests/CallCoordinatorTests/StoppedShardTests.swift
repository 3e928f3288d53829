import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

/// Data that cannot be read stops its shard and nothing else. The shard says so, and is tried again when the cause may
/// be gone.
@Suite struct StoppedShardTests {
  static let shard = 3

  func impatient(_ configuration: inout CoordinatorConfiguration) {
    configuration.stoppedRetry = .milliseconds(50)
  }

  func record(
    _ number: UInt64, epoch: UInt64 = 1, previous: UInt64, entries: [JournalEntry] = []
  ) -> [UInt8] {
    ClusterCodec.encode(
      JournalRecord(
        epoch: epoch, number: number, writer: "x", at: Timestamp(microseconds: 1),
        entries: entries, previous: previous))
  }

  @discardableResult
  func append(_ bench: ClusterBench, _ bytes: [UInt8], behind: UInt64) async throws -> UInt64 {
    let result = await bench.journal.append(shard: Self.shard, expecting: behind, bytes)
    guard case .appended(let sequence) = result else { throw Timeout(what: "\(result)") }
    return sequence
  }

  /// The operator gives the loss up.
  func accept(_ bench: ClusterBench, _ sequence: UInt64) async throws {
    let key = "\(Self.shard).accept"
    _ = try await bench.checkpoints().put(key, Array("\(sequence)".utf8), expecting: nil)
  }

  /// Waits until all shards but one serve on the node; returns what it says of that one.
  func stopped(_ bench: ClusterBench, on node: String = "a") async throws -> StoppedShard {
    var found: StoppedShard?
    try await eventually("seven serve, one is stopped") {
      let status = try await bench.status()[node]?.coordinator
      let shards = status?.shards ?? []
      found = status?.stopped?.first
      return shards.count { $0.state == "serving" } == 7 && status?.stopped?.count == 1
        && shards.filter { $0.state == "stopped" }.map(\.shard) == [Self.shard]
    }
    #expect(bench.metrics(node).shardsStopped.value == 1)
    let stopped = try #require(found)
    #expect(stopped.shard == Self.shard && !stopped.reason.isEmpty && !stopped.remedy.isEmpty)
    return stopped
  }

  @Test(
    arguments: [
      [0xff, 0xff],  // No protobuf.
      [],  // Cut off at its beginning.
      [0x08, 9],  // A later version's.
      [0x08, 1, 0x32, 3, 0xd2, 0x05, 0x00],  // With an entry of a later version.
    ] as [[UInt8]]) func aRecordOfTheJournal(bytes: [UInt8]) async throws
  {
    try await ClusterBench.run { bench in
      let first = try await append(bench, record(0, previous: 0), behind: 0)
      let bad = try await append(bench, bytes, behind: first)
      bench.start("a", impatient)
      let stopped = try await stopped(bench)
      #expect(stopped.what == "journal" && stopped.sequence == bad)
      // The operator gives it up: it serves without a restart.
      #expect(stopped.remedy.contains("\(Self.shard).accept \(bad)"))
      try await accept(bench, bad)
      try await bench.settled(["a"])
      #expect(bench.metrics("a").shardsStopped.value == 0)
      #expect(bench.metrics("a").recordsGivenUp.value > 0)
      // And is read by the next owner without that.
      _ = try await bench.checkpoints().delete("\(Self.shard).accept")
      try await eventually("a checkpoint") { bench.metrics("a").checkpoints.value > 0 }
      try await bench.stop("a")
      bench.start("b")
      try await bench.settled(["b"])
    }
  }

  @Test func aGapInTheJournal() async throws {
    try await ClusterBench.run { bench in
      let first = try await append(bench, record(0, previous: 0), behind: 0)
      let last = try await append(bench, record(2, previous: first + 1), behind: first)
      bench.start("a", impatient)
      let stopped = try await stopped(bench)
      #expect(stopped.sequence == last && stopped.reason.contains("follows"))
    }
  }

  /// The store lost its end, as after a power failure without replicas.
  @Test func aJournalThatEndsBeforeItsCheckpoint() async throws {
    try await ClusterBench.run { bench in
      try await append(bench, record(0, previous: 0), behind: 0)
      let store = CheckpointStore(bucket: try await bench.checkpoints())
      try await store.write(Checkpoint(sequence: 500, epoch: 1, entries: []), shard: Self.shard)
      bench.start("a", impatient)
      let stopped = try await stopped(bench)
      #expect(stopped.what == "journal" && stopped.reason.contains("before its checkpoint"))
      try await accept(bench, 500)
      try await bench.settled(["a"])
    }
  }

  @Test(arguments: ["2 1 1 1 1", "1 1 5 100 1", "nonsense"])
  func aCheckpoint(head: String) async throws {
    try await ClusterBench.run { bench in
      let bucket = try await bench.checkpoints()
      try await append(bench, record(0, previous: 0), behind: 0)
      _ = await bucket.put("\(Self.shard).head", Array(head.utf8), expecting: nil)
      bench.start("a", impatient)
      #expect(try await stopped(bench).what == "checkpoint")
      _ = await bucket.delete("\(Self.shard).head")
      try await bench.settled(["a"])
    }
  }

  @Test(arguments: [[0xff, 0xff], [0x28, 9]] as [[UInt8]]) func aLease(bytes: [UInt8]) async throws
  {
    try await ClusterBench.run { bench in
      _ = await bench.leases.put("\(Self.shard)", bytes, expecting: nil)
      bench.start("a", impatient)
      #expect(try await stopped(bench).what == "lease")
      // It is not written over: it may mean something to another version.
      #expect(try await bench.leases.get("\(Self.shard)")?.value == bytes)
      _ = await bench.leases.delete("\(Self.shard)")
      try await bench.settled(["a"])
    }
  }

  /// Who cannot read it leaves it to others, and does not take it back.
  @Test func aNodeThatCanReadItTakesIt() async throws {
    try await ClusterBench.run { bench in
      // The one that placement prefers, as if it were of an older version: what it could not read
      // is what it wrote into the lease.
      let preferred = try #require(Placement.desired(shard: Self.shard, candidates: ["a", "b"]))
      let other = preferred == "a" ? "b" : "a"
      let bad = try await append(bench, [0x08, 9], behind: 0)
      bench.start(preferred)
      let stopped = try await stopped(bench, on: preferred)
      #expect(stopped.sequence == bad && stopped.reason.contains("newer version"))
      let lease = try #require(try await bench.owners()[Self.shard])
      #expect(lease.released && lease.refusedBy.count == 1 && lease.refusal.contains("record"))
      // The other one can, since the loss is accepted by now; the preferred one waits for its retry.
      try await accept(bench, bad)
      bench.start(other)
      try await eventually("the other serves it") {
        try await bench.shards(of: other).contains {
          $0.shard == Self.shard && $0.state == "serving"
        }
      }
      let taken = try #require(try await bench.owners()[Self.shard])
      #expect(taken.owner == other && taken.refusedBy == lease.refusedBy)
      try await eventually("the preferred one is not stopped any more") {
        bench.metrics(preferred).shardsStopped.value == 0
      }
    }
  }
}
