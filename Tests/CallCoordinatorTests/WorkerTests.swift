import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

@Suite struct WorkerTests {
  @Test func nothingLeavesBeforeTheJournalHasIt() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      bench.journal.hold()
      bench.query(1, shard: 0)
      try await eventually("the append waits") { bench.journal.waiting == 1 }
      try await bench.flush()
      #expect(!bench.isAnswered(1))
      bench.journal.letGo()
      try await eventually("the reply") { bench.isAnswered(1) }
    }
  }

  @Test func commandsDuringAnAppendShareTheNext() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      bench.journal.hold()
      bench.query(1, shard: 0)
      try await eventually("the first append waits") { bench.journal.waiting == 1 }
      let before = bench.metrics.commands.value
      for request in 2...50 { bench.query(UInt64(request), shard: 0) }
      try await eventually("all are decided") { bench.metrics.commands.value == before + 49 }
      let appends = bench.journal.records.count
      bench.journal.letGo()
      try await eventually("all replies") { (1...50).allSatisfy { bench.isAnswered($0) } }
      #expect(bench.journal.records.count == appends + 1)
    }
  }

  /// The bus may have lost what an edge announced.
  @Test func sessionsAreAskedForAgainWhileItServes() async throws {
    try await WorkerBench {
      $0.askForSessionsAgain = [.milliseconds(5), .milliseconds(10)]
    }.run { bench in
      try await bench.adopt(0)
      try await eventually("three more requests") {
        bench.edge.announceRequests.count { $0.shard == 0 && $0.epoch == 1 } >= 3
      }
    }
  }

  @Test func aRefusedAppendSilencesTheShard() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0)
      try await bench.adopt(1)
      bench.bus.setFaults { $0.onAppend = { shard, _ in shard == 0 ? .refuse : nil } }
      bench.query(1, shard: 0)
      try await eventually("it steps down") { bench.steppedDown == [term] }
      bench.query(2, shard: 0)
      bench.query(3, shard: 1)
      try await eventually("the other shard serves on") { bench.isAnswered(3) }
      try await bench.flush()
      #expect(!bench.isAnswered(1))
      #expect(!bench.isAnswered(2))
      #expect(bench.metrics.appendsRefused.value == 1)
      #expect(bench.metrics.heldBack.value == 0)
      #expect(bench.metrics.shards.value == 1)
    }
  }

  /// The journal has it, only the answer was lost.
  @Test func aLostAnswerOfAStoredAppendIsSettledAsOurs() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let once = Once()
      bench.bus.setFaults { $0.onAppend = { _, _ in once.first() ? .unknown(stored: true) : nil } }
      let appends = bench.journal.records.count
      bench.query(1, shard: 0)
      try await eventually("the reply") { bench.isAnswered(1) }
      #expect(bench.journal.records.count == appends + 1)
      #expect(bench.metrics.appendsUnknown.value == 1)
      // And it goes on behind that record.
      bench.query(2, shard: 0)
      try await eventually("the next reply") { bench.isAnswered(2) }
    }
  }

  /// It never arrived: the same record is appended again.
  @Test func aLostAppendIsRepeated() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let once = Once()
      bench.bus.setFaults {
        $0.onAppend = { _, _ in once.first() ? .unknown(stored: false) : nil }
      }
      let appends = bench.journal.records.count
      bench.query(1, shard: 0)
      try await eventually("the reply") { bench.isAnswered(1) }
      let records = bench.journal.records.suffix(2)
      #expect(bench.journal.records.count == appends + 2)
      #expect(records.first == records.last)
    }
  }

  /// Meanwhile somebody else wrote.
  @Test func aLostAppendBehindWhichAnotherWroteSilencesTheShard() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0)
      bench.query(1, shard: 0)
      try await eventually("the first reply") { bench.isAnswered(1) }
      let end = try await bench.journal.last(shard: 0)?.sequence ?? 0
      let fence = ClusterCodec.encode(
        JournalRecord(
          epoch: 2, number: 0, writer: "other", at: bench.clock.now(), entries: []))
      // The other's record slips in before the answer is known to be lost.
      let journal = bench.journal.inner
      let once = Once()
      bench.bus.setFaults { faults in
        faults.onAppend = { _, _ in
          guard once.first() else { return nil }
          journal.append(shard: 0, expecting: end, fence) { _ in }
          return .unknown(stored: false)
        }
      }
      bench.query(2, shard: 0)
      try await eventually("it steps down") { bench.steppedDown == [term] }
      try await bench.flush()
      #expect(!bench.isAnswered(2))
    }
  }

  /// A replicated store took two records that expected the same, and acknowledged both. The other's
  /// stands first: ours does not count, whatever was acknowledged.
  @Test func anAcknowledgedAppendBehindAnothersSilencesTheShard() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0)
      bench.query(1, shard: 0)
      try await eventually("the first reply") { bench.isAnswered(1) }
      let fence = try await SilenceTests.fence(bench)
      let once = Once()
      bench.bus.setFaults { faults in
        faults.takesRacingAppends = true
        faults.onAppend = { _, _ in once.first() ? .race(before: fence) : nil }
      }
      bench.query(2, shard: 0)
      try await eventually("it steps down") { bench.steppedDown == [term] }
      try await bench.flush()
      #expect(!bench.isAnswered(2))
      #expect(bench.metrics.appendsRefused.value == 1)
    }
  }

  /// An earlier attempt that was taken for lost came after all, beside its repetition.
  @Test func aRecordThatIsStoredTwiceCountsOnce() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      bench.bus.setFaults { faults in
        faults.takesRacingAppends = true
        faults.onAppend = { _, bytes in .race(before: bytes) }
      }
      for request in UInt64(1)...5 {
        bench.query(request, shard: 0)
        try await eventually("the reply") { bench.isAnswered(request) }
      }
      #expect(bench.steppedDown.isEmpty)
    }
  }

  /// The first attempt arrives late: its repetition is refused, which must not be taken for a loss.
  @Test func aRepeatedAppendThatIsRefusedIsLookedAtAgain() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let count = Mutex(0)
      bench.bus.setFaults { faults in
        faults.onAppend = { _, _ in
          let attempt = count.withLock { count in
            count += 1
            return count
          }
          switch attempt {
          case 1: return .unknown(stored: false)
          case 2: return .unknown(stored: true)
          case 3: return .refuse
          default: return nil
          }
        }
      }
      bench.query(1, shard: 0)
      try await eventually("the reply") { bench.isAnswered(1) }
      #expect(bench.steppedDown.isEmpty)
    }
  }

  @Test func aRecordThatTheJournalNeverTakesEndsTheTerm() async throws {
    try await WorkerBench({ $0.appendAttemptsMax = 3 }).run { bench in
      let term = try await bench.adopt(0)
      bench.bus.setFaults { $0.onAppend = { _, _ in .unknown(stored: false) } }
      bench.query(1, shard: 0)
      try await eventually("it steps down") { bench.steppedDown == [term] }
      #expect(!bench.isAnswered(1))
    }
  }

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
      #expect(!bench.isAnswered(1))
      #expect(bench.steppedDown == [term])
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

  /// Else the claim counts as a success, and nobody serves the shard.
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

  /// An edge was lost, and is back, while another shard is being recovered.
  @Test func aLostEdgeThatIsBackKeepsItsSessions() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let inbox = bench.worker.inbox
      let term = ShardTerm(shard: 1, epoch: 1)
      inbox.offer(.beginRecovery(term))
      inbox.offer(.edgeLost(bench.edge.number, awaitedUntil: .distantFuture))
      inbox.offer(.edgeReturned(bench.edge.number))
      let bob = bench.user(0)
      try await bench.edge.attach(bob, "phone", session: 7)
      try await recover(bench, term)
      #expect(await bench.worker.inspect(user: bob, shard: 0)?.devices.first?.session != nil)
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
    // Those that are never back are forgotten, the oldest first.
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

  @Test func requestsForSessionsAreCounted() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      bench.worker.inbox.offer(.edgeReturned(999))
      try await eventually("all are asked anew") { bench.edge.announceRequests.count == 2 }
      #expect(bench.edge.announceRequests.map(\.number) == [1, 2])
    }
  }

  /// What was lost while shards were recovered is lost for each of them once, and for no other.
  @Test func aLostEdgeConcernsEachShardOnce() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let inbox = bench.worker.inbox
      let terms = (1..<WorkerBench.shards).map { ShardTerm(shard: $0, epoch: 1) }
      for term in terms { inbox.offer(.beginRecovery(term)) }
      inbox.offer(.edgeLost(bench.edge.number, awaitedUntil: .distantFuture))
      let bob = bench.user(0)
      try await bench.edge.attach(bob, "phone", session: 7)
      for term in terms {
        try await recover(bench, term)
        #expect(await bench.worker.inspect(user: bob, shard: 0)?.devices.first?.session != nil)
      }
    }
  }

  @inline(never)
  private func recover(_ bench: WorkerBench, _ term: ShardTerm) async throws {
    bench.worker.inbox.offer(
      .adopt(
        RecoveredShard(
          term: term, machine: ShardMachine(shard: term.shard, epoch: 1, limits: CallLimits()),
          sequence: 0, edges: KnownEdges(living: []))))
    try await eventually("\(term) serves") { bench.reported.contains(.serving(term)) }
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
      inbox.offerCommands(shard: 0, ClusterCodec.encode(batch))
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
    for _ in 0..<5 { inbox.offerCommands(shard: 0, []) }
    for edge in 0..<5 { inbox.offer(.edgeLost(UInt64(edge), awaitedUntil: .distantFuture)) }
    #expect(inbox.depth == 8)
    #expect(bench.metrics.commandBatchesDropped.value == 2)
    await bench.bus.close()
  }

  /// What an edge retransmits when it is asked for its sessions comes in the right order; what came
  /// before may lack its beginning.
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
          shard: 0,
          ClusterCodec.encode(CommandBatch(edge: bench.edge.number, commands: [command])))
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

/// What the end of a release said.
private final class Parted: Sendable {
  private let state = Mutex<Bool?>(nil)
  var said: Bool? { state.withLock { $0 } }
  func say(_ ok: Bool) { state.withLock { $0 = ok } }
}
