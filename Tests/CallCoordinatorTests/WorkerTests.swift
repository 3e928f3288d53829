import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

@Suite struct WorkerTests {
  @Test func commandsDuringAnAppendShareTheNext() async throws {
    try await WorkerBench().serve { bench in
      try await bench.queryThatWaits(1)
      let before = bench.metrics.commands.value
      for request in 2...50 { bench.query(UInt64(request), shard: 0) }
      try await eventually("all are decided") { bench.metrics.commands.value == before + 49 }
      let appends = bench.journal.records.count
      bench.journal.letGo()
      try await eventually("all replies") { (1...50).allSatisfy { bench.isAnswered($0) } }
      #expect(bench.journal.records.count == appends + 1)
    }
  }

  /// The fate of an attempt at an append.
  enum Attempt: Sendable {
    case lost, unanswered
    /// The record comes after all, and is refused where it was expected.
    case refusedThoughStored
    /// An earlier attempt that was taken for lost came after all, beside its repetition.
    case storedTwice
  }

  @Test(
    arguments: [[.unanswered], [.lost], [.lost, .refusedThoughStored], [.storedTwice]]
      as [[Attempt]])
  func anAppendOfUnknownFateIsSettledAsOurs(attempts: [Attempt]) async throws {
    try await WorkerBench().serve { bench in
      let journal = bench.journal.inner
      let end = try await journal.last(shard: 0)?.sequence ?? 0
      let left = Mutex(attempts[...])
      bench.bus.setFaults { faults in
        faults.takesRacingAppends = attempts == [.storedTwice]
        faults.onAppend = { _, bytes in
          switch left.withLock({ $0.popFirst() }) {
          case .lost: return .unknown(stored: false)
          case .unanswered: return .unknown(stored: true)
          case .refusedThoughStored:
            journal.append(shard: 0, expecting: end, bytes) { _ in }
            return .refuse
          case .storedTwice: return .race(before: bytes)
          case nil: return nil
          }
        }
      }
      let before = bench.journal.records.count
      try await bench.ask(1)
      // A lost record is appended again, as it was.
      let records = bench.journal.records.dropFirst(before)
      #expect(records.count == (attempts.first == .lost ? 2 : 1))
      #expect(records.allSatisfy { $0 == records.first })
      #expect(bench.metrics.appendsUnknown.value == (attempts == [.storedTwice] ? 0 : 1))
      // And it goes on behind that record.
      try await bench.ask(2)
      #expect(bench.steppedDown.isEmpty)
    }
  }

  /// Meanwhile somebody else wrote, and the append is lost; or a replicated store took two records that expected the
  /// same, and acknowledged both. The other's stands first: ours does not count, whatever was acknowledged.
  @Test(arguments: [false, true])
  func anAppendBehindAnothersSilencesTheShard(isAcknowledged: Bool) async throws {
    try await WorkerBench().serve { bench in
      try await bench.ask(1)
      let end = try await bench.journal.last(shard: 0)?.sequence ?? 0
      let fence = try await SilenceTests.fence(bench)
      let journal = bench.journal.inner
      let once = Once()
      bench.bus.setFaults { faults in
        faults.takesRacingAppends = isAcknowledged
        faults.onAppend = { _, _ in
          guard once.first() else { return nil }
          if isAcknowledged { return .race(before: fence) }
          journal.append(shard: 0, expecting: end, fence) { _ in }
          return .unknown(stored: false)
        }
      }
      bench.query(2)
      try await bench.stepsDown()
      try await bench.flush()
      #expect(!bench.isAnswered(2))
      #expect(bench.metrics.appendsRefused.value == 1)
    }
  }

  @Test func aRecordThatTheJournalNeverTakesEndsTheTerm() async throws {
    try await WorkerBench({ $0.appendAttemptsMax = 3 }).serve { bench in
      bench.bus.setFaults { $0.onAppend = { _, _ in .unknown(stored: false) } }
      bench.query(1)
      try await bench.stepsDown()
      #expect(!bench.isAnswered(1))
    }
  }

  /// The bus may have lost what an edge announced.
  @Test func sessionsAreAskedForAgainWhileItServes() async throws {
    try await WorkerBench {
      $0.askForSessionsAgain = [.milliseconds(5), .milliseconds(10), .seconds(3600)]
    }.serve { bench in
      try await eventually("two more requests") { bench.edge.announceRequests.count == 3 }
      // An edge returns. Its connection may be so new that it does not get the request.
      bench.worker.inbox.offer(.edgeReturned(999))
      try await eventually("three more requests") { bench.edge.announceRequests.count == 6 }
      let requests = bench.edge.announceRequests
      #expect(requests.map(\.number) == Array(1...6))
      #expect(requests.allSatisfy { $0.shard == 0 && $0.epoch == 1 })
    }
  }

  /// An edge stood still with its answer on the way, and was counted lost: that answer tells nothing of the
  /// sessions that it has now.
  @Test func anAnswerOfBeforeTheLossIsNoAnnouncement() {
    var requests = AnnouncementTracker()
    func isFresh(_ edge: UInt64, _ number: UInt64) -> Bool {
      requests.isFresh(AnnounceDone(shard: 0, epoch: 1, edge: edge, sessions: 0, number: number))
    }
    #expect([requests.next(), requests.next(), requests.next()] == [1, 2, 3])
    requests.noteLoss(of: 7)
    #expect(!isFresh(7, 1) && !isFresh(7, 3))
    #expect(isFresh(7, 4), "asked since")
    #expect(isFresh(8, 3), "never lost")
    #expect(isFresh(7, 0), "an earlier version does not say")
    requests.isComplete(7)
    #expect(isFresh(7, 3))
    // The tracker forgets edges that never come back, the oldest first.
    for edge in 100..<300 {
      _ = requests.next()
      requests.noteLoss(of: UInt64(edge))
    }
    #expect(isFresh(100, 1) && !isFresh(299, 4))
  }

  @Test func theRestIsAskedForAtOnceOnlyOnce() {
    var requests = AnnouncementTracker()
    let atFirst = [requests.isIncomplete(7), requests.isIncomplete(7)]
    requests.noteLoss(of: 7)
    // A lost edge is forgotten, so that none is kept that never returns.
    #expect(atFirst + [requests.isIncomplete(7)] == [true, false, true])
  }

  /// An edge that was lost while shards were recovered is lost for each of them once, and for no other. Its command shows
  /// that it is back.
  @Test func aLostEdgeConcernsEachShardOnce() async throws {
    try await WorkerBench().serve { bench in
      let inbox = bench.worker.inbox
      let terms = (1..<WorkerBench.shards).map { ShardTerm(shard: $0, epoch: 1) }
      for term in terms { inbox.offer(.beginRecovery(term)) }
      inbox.offer(.edgeLost(bench.edge.number, awaitedUntil: .distantFuture))
      let bob = bench.user(0)
      try await bench.edge.attach(bob, "phone", session: 7)
      for term in terms {
        bench.recovered(term)
        try await eventually("\(term) serves") { await bench.serves(term) }
        #expect(await bench.worker.inspect(user: bob, shard: 0)?.devices.first?.session != nil)
      }
    }
  }

  @Test func checkpointsAreTakenWhereTheJournalIs() async throws {
    try await WorkerBench({ $0.checkpointEveryRecords = 5 }).serve { bench in
      for request in UInt64(1)...40 { try await bench.ask(request) }
      let jobs = bench.checkpointJobs
      #expect(jobs.count >= 6)
      #expect(jobs.map(\.checkpoint.sequence) == jobs.map(\.checkpoint.sequence).sorted())
      let end = try await bench.journal.last(shard: 0)?.sequence ?? 0
      #expect(jobs.allSatisfy { $0.checkpoint.sequence <= end })
    }
  }

  /// More waits than one record takes. The calls are ahead of a record that was closed early.
  @Test func noCheckpointIsAheadOfItsRecord() async throws {
    try await WorkerBench({ $0.checkpointEveryRecords = 1 }).serve { bench in
      try await bench.queryThatWaits(1)
      let callee = bench.user(0)
      for number in UInt64(1)...12 {
        let request = PlaceRequest(
          call: CallID(high: 7, low: number), description: String(repeating: "d", count: 60_000))
        bench.edge.send(
          .place(request), from: 100 + number, .user("caller\(number)"), "d1", to: callee,
          request: 1)
      }
      try await eventually("all are decided") {
        await bench.worker.status().contains { $0.placed + $0.ringing + $0.endedKept == 12 }
      }
      bench.journal.letGo()
      func placed(_ entries: [JournalEntry]) -> Int {
        entries.count { if case .placed = $0.change { true } else { false } }
      }
      try await eventually("all are journalled") {
        placed(bench.journal.records.flatMap(\.entries)) == 12
      }
      let stored = try await bench.journal.records(shard: 0, from: 1, limit: 1000)
      let records = try stored.map { ($0.sequence, try ClusterCodec.journalRecord($0.bytes)) }
      #expect(records.count { placed($0.1.entries) > 0 } > 1, "one record was closed early")
      for job in bench.checkpointJobs {
        let before = records.filter { $0.0 <= job.sequence }.flatMap(\.1.entries)
        #expect(placed(job.checkpoint.entries) <= placed(before))
      }
    }
  }

  /// Nothing more happens to the shard: the oldest record's age is enough.
  @Test func checkpointsAreTakenByAge() async throws {
    try await WorkerBench({ $0.checkpointEvery = .milliseconds(30) }).serve { bench in
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
    }).serve { bench in
      bench.failCheckpoints(true)
      for request in UInt64(1)...3 { try await bench.ask(request) }
      // Without a further record.
      try await eventually("tries") { bench.checkpointJobs.count >= 3 }
      bench.failCheckpoints(false)
      let tried = bench.checkpointJobs.count
      try await eventually("one more") { bench.checkpointJobs.count > tried }
    }
  }
}

/// True the first time.
final class Once: Sendable {
  private let used = Mutex(false)
  func first() -> Bool {
    used.withLock { used in
      defer { used = true }
      return !used
    }
  }
}
