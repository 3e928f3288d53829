import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

extension WorkerTests {
  @Test func checkpointsAreTakenWhereTheJournalIs() async throws {
    try await WorkerBench({ $0.checkpointEveryRecords = 5 }).run { bench in
      try await bench.adopt(0)
      for request in 1...40 {
        bench.query(UInt64(request), shard: 0)
        try await eventually("reply \(request)") { bench.isAnswered(UInt64(request)) }
      }
      let jobs = bench.checkpointJobs
      #expect(jobs.count >= 6)
      #expect(jobs.map(\.checkpoint.sequence) == jobs.map(\.checkpoint.sequence).sorted())
      let end = try await bench.journal.last(shard: 0)?.sequence ?? 0
      #expect(jobs.allSatisfy { $0.checkpoint.sequence <= end })
    }
  }

  @Test func checkpointsAreTakenByBytes() async throws {
    try await WorkerBench({ $0.checkpointEveryBytes = 200 }).run { bench in
      try await bench.adopt(0)
      for request in 1...40 {
        bench.query(UInt64(request), shard: 0)
        try await eventually("reply \(request)") { bench.isAnswered(UInt64(request)) }
      }
      #expect(bench.checkpointJobs.count >= 4, "forty records of twenty bytes and more")
    }
  }

  /// Nothing more happens to the shard: the oldest record's age is enough.
  @Test func checkpointsAreTakenByAge() async throws {
    try await WorkerBench({ $0.checkpointEvery = .milliseconds(30) }).run { bench in
      try await bench.adopt(0)
      bench.query(1, shard: 0)
      try await eventually("the checkpoint") { bench.checkpointJobs.count == 1 }
      let end = try await bench.journal.last(shard: 0)?.sequence
      #expect(bench.checkpointJobs[0].sequence == end)
    }
  }

  @Test func aCheckpointThatCouldNotBeWrittenIsTriedAgain() async throws {
    try await WorkerBench({
      $0.checkpointEveryRecords = 3
      $0.checkpointRetry = .milliseconds(10)
    }).run { bench in
      try await bench.adopt(0)
      bench.failCheckpoints(true)
      for request in 1...3 {
        bench.query(UInt64(request), shard: 0)
        try await eventually("reply \(request)") { bench.isAnswered(UInt64(request)) }
      }
      // Without a further record.
      try await eventually("tries") { bench.checkpointJobs.count >= 3 }
      bench.failCheckpoints(false)
      let tried = bench.checkpointJobs.count
      try await eventually("one more") { bench.checkpointJobs.count > tried }
    }
  }
}
