import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

extension WorkerTests {
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

  /// An edge's connection may be so new that it does not get the request.
  @Test func anEdgeThatReturnsIsSoonAskedAgain() async throws {
    try await WorkerBench {
      $0.askForSessionsAgain = [.milliseconds(5), .seconds(3600)]
    }.run { bench in
      try await bench.adopt(0)
      try await eventually("a second request") { bench.edge.announceRequests.count == 2 }
      bench.worker.inbox.offer(.edgeReturned(999))
      try await eventually("two more requests") { bench.edge.announceRequests.count == 4 }
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

  @Test func requestsForSessionsAreCounted() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      bench.worker.inbox.offer(.edgeReturned(999))
      try await eventually("all are asked anew") { bench.edge.announceRequests.count >= 2 }
      #expect(bench.edge.announceRequests.prefix(2).map(\.number) == [1, 2])
    }
  }

  /// An edge that was lost while shards were recovered is lost for each of them once, and for no other.
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
    try await eventually("\(term) serves") { await bench.serves(term) }
  }
}
