import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

@Suite struct ClusterTests {
  /// That nothing is claimed twice by two that start together is a matter of time, and shown on simulated time.
  @Test func aThirdTakesOnlyWhatMustMove() async throws {
    try await ClusterBench.run(["a", "b"], shards: 16) { bench in
      let users = try await bench.ring(12)
      let before = try await bench.owners()
      #expect(Set(before.map { $0?.owner }) == ["a", "b"])
      bench.start("c")
      try await bench.settled(["a", "b", "c"])
      let after = try await bench.owners()
      for shard in 0..<16 {
        let moved = before[shard]?.owner != after[shard]?.owner
        #expect(after[shard]?.epoch == before[shard].map { moved ? $0.epoch + 1 : $0.epoch })
        if moved { #expect(after[shard]?.owner == "c") }
      }
      // Each side measures the pauses that it knows of.
      let moved = after.count { $0?.owner == "c" }
      #expect(moved > 0 && bench.metrics("c").handoverPause.count == UInt64(moved))
      #expect(bench.metrics("c").takeoverPause.count == 0)
      let status = try await bench.status()["c"]?.coordinator
      #expect(status?.handoverPause?.count == UInt64(moved))
      try await bench.answerAll(users)
    }
  }

  @Test func oneThatLeavesLosesNoCall() async throws {
    try await ClusterBench.run(["a", "b"]) { bench in
      let users = try await bench.ring(16)
      let held = try await bench.owners().count { $0?.owner == "a" }
      let metrics = bench.metrics("a")
      let released = metrics.releases.value
      try await bench.stop("a")
      #expect(metrics.releases.value == released + UInt64(held))
      #expect(metrics.stepDowns.value == 0)
      try await bench.settled(["b"])
      try await bench.answerAll(users)
    }
  }

  /// The same node, at once: its former leases are free, since it is another incarnation.
  @Test func whatLostItsOwnerDoesNotWaitForItToStart() async throws {
    try await ClusterBench.run(["a", "b"]) { bench in
      let users = try await bench.ring(16)
      await bench.crash("b")
      // It is back under its name, and takes its time.
      bench.start("b") { $0.settleTime = .seconds(3600) }
      try await eventually("a stands in") {
        try await bench.owners().allSatisfy { $0?.owner == "a" && $0?.released == false }
      }
      try await bench.answerAll(users)
    }
  }

  /// No coordinator is left: another one, or the same one again, finds the calls later.
  @Test(arguments: ["a", "b"]) func callsOutliveACompleteStop(next: String) async throws {
    func checkpointing(_ configuration: inout CoordinatorConfiguration) {
      configuration.checkpointEveryRecords = 3
    }
    try await ClusterBench.run(["a"], changing: checkpointing) { bench in
      // No other node had the shards before.
      let metrics = bench.metrics("a")
      #expect(metrics.handoverPause.count == 0 && metrics.takeoverPause.count == 0)
      let users = try await bench.ring(16)
      if next == "a" {
        await bench.crash("a")
      } else {
        try await bench.stop("a")
        #expect(try await bench.owners().allSatisfy { $0?.released == true })
      }
      bench.start(next)
      try await bench.settled([next])
      if next == "a" { #expect(try await bench.owners().allSatisfy { $0?.epoch == 2 }) }
      try await bench.answerAll(users)
    }
  }

  /// R23: a former owner that does not know it is fenced speaks to no device and no node. Another node wrote with a
  /// later epoch. Or two processes of one name, as after a freeze that a supervisor took for a death, got the same
  /// epoch from a store that takes racing writes: each knows its own records only.
  @Test(arguments: [false, true])
  func aFencedOwnerIsSilentAndTheShardGoesOn(bySameName: Bool) async throws {
    try await ClusterBench.run(["a"], shards: 1) { bench in
      let user = UserKey.user("u")
      try await bench.edge.attach(user, "phone", session: 1)
      let stored = try #require(try await bench.journal.last(shard: 0))
      let last = try ClusterCodec.journalRecord(stored.bytes)
      #expect(last.writer != "a" && last.writer.hasPrefix("a/"))
      var fence = JournalRecord(
        epoch: 5, number: 0, writer: "x", at: bench.clock.now(), entries: [])
      if bySameName {
        (fence.epoch, fence.number, fence.writer) = (last.epoch, last.number + 1, "a")
        fence.previous = stored.sequence
      }
      bench.journal.append(
        shard: 0, expecting: stored.sequence, ClusterCodec.encode(fence)
      ) { _ in }
      // It steps down, claims anew with an epoch above that one, and answers.
      let reply = try await bench.edge.ask(
        .call(ClusterBench.call(1), .query), from: 1, user, "phone", to: user)
      #expect(reply.call?.phase == .unknown)
      #expect(bench.metrics("a").stepDowns.value == 1)
      try await eventually("its new lease") {
        try await bench.owners()[0]?.epoch == fence.epoch + 1
      }
    }
  }

  @Test func anEdgeThatFallsSilentAndReturnsAnnouncesItsSessions() async throws {
    try await ClusterBench.run(["a"], changing: mortal) { bench in
      let users = try await bench.attachUsers(4)
      bench.edge.stopHeart()
      try await eventually("its sessions are gone") {
        let shards = try await bench.shards(of: "a")
        return shards.count == 8 && shards.allSatisfy { $0.sessions == 0 }
      }
      bench.edge.startHeart()
      try await eventually("its sessions are back") {
        try await bench.shards(of: "a").reduce(0) { $0 + $1.sessions } == 2 * users.count
      }
      try await bench.callAll(users)
      let deliveries = try await bench.shards(of: "a").reduce(0) { $0 + $1.deliveriesTotal }
      #expect(deliveries >= UInt64(users.count))
      try await bench.answerAll(users)
    }
  }

  /// No process listens at a killed node's address. The others know that long before its silence counts.
  @Test func aCrashIsNoticedBeforeTheTimeout() async throws {
    func quick(_ configuration: inout CoordinatorConfiguration) {
      configuration.probeTime = .milliseconds(60)
      configuration.probeAfterConnect = .milliseconds(0)
      #expect(configuration.leaseTimeout == .seconds(60))
    }
    try await ClusterBench.run(["a", "b"], changing: quick) { bench in
      let users = try await bench.ring(16)
      let held = try await bench.owners().count { $0?.owner == "a" }
      await bench.crash("a")
      try await bench.settled(["b"])
      try await bench.answerAll(users)
      #expect(bench.metrics("b").takeoverPause.count == UInt64(held))
    }
  }

  @Test func operatorsSeeACall() async throws {
    try await ClusterBench.run(["a", "b"]) { bench in
      let users = try await bench.ring(2)
      let query = AdminQuery(call: ClusterBench.call(1).description)
      let reports: [CallReport] = try await bench.ask(bench.subjects.adminCall, query)
      #expect(reports.count == 2)
      let found = try #require(reports.first { $0.found })
      #expect(reports.count { $0.found } == 1)
      #expect(found.callee == "callee-1")
      #expect(Set(found.legs?.map(\.party.device) ?? []) == ["phone", "laptop"])
      #expect(found.timeline?.isEmpty == false)
      #expect(found.timelineDropped == 0)
      // The name that the device got, and that is in the edge's log.
      let names = (2...3).map { SessionRef(edge: bench.edge.number, number: $0).description }
      #expect(found.legs?.map(\.session) == names)
      let known: [UserReport] = try await bench.ask(
        bench.subjects.adminUser, AdminQuery(app: users[1].app, user: users[1].user))
      #expect(known.first { $0.found }?.devices?.map(\.session) == names)
      let none: [CallReport] = try await bench.ask(
        bench.subjects.adminCall, AdminQuery(call: "nonsense"))
      #expect(none.count == 2 && none.allSatisfy { !$0.found })
      // Strangers' calls may have the same id.
      for user in users {
        let named: [CallReport] = try await bench.ask(
          bench.subjects.adminCall,
          AdminQuery(call: ClusterBench.call(1).description, app: user.app, user: user.user))
        #expect(named.contains { $0.found } == (user.user == "callee-1"))
      }
    }
  }

  /// Runs one more node.
  private func run(
    _ bench: ClusterBench, _ change: (inout CoordinatorConfiguration) -> Void
  ) async throws {
    var configuration = testConfiguration("a")
    change(&configuration)
    try await CoordinatorNode(
      configuration: configuration, bus: bench.bus, clock: bench.clock,
      metrics: MetricsRegistry(), logger: quietLogger()
    ).run()
  }

  @Test func aSecondNodeOfTheSameNameIsRefused() async throws {
    try await ClusterBench.run(["a"]) { bench in
      // It waits for so long for a heartbeat of the other one, which a busy machine delays.
      await #expect(throws: CoordinatorError.nodeIDTaken("a")) {
        try await run(bench) { $0.settleTime = .seconds(30) }
      }
      try await bench.settled(["a"])
    }
  }

  @Test func impossibleConfigurationsAreRefusedWithASentence() async throws {
    try await ClusterBench.run { bench in
      for change: (inout CoordinatorConfiguration) -> Void in [
        { $0.nodeID = "" }, { $0.shardCount = 0 }, { $0.workers = 0 },
        { $0.heartbeatInterval = $0.leaseTimeout }, { $0.checkpointEveryRecords = 0 },
      ] {
        await #expect(throws: CoordinatorError.self) { try await run(bench, change) }
      }
    }
  }
}
