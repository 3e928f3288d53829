import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

@Suite struct ClusterTests {
  func withCluster(
    shards: Int = 8, _ body: (ClusterBench) async throws -> Void
  ) async throws {
    let bench = try await ClusterBench(shards: shards)
    do { try await body(bench) } catch {
      await bench.finish()
      throw error
    }
    await bench.finish()
  }

  /// That nothing is claimed twice then is a matter of time, and shown on simulated time.
  @Test func twoThatStartTogetherShareTheShards() async throws {
    try await withCluster(shards: 16) { bench in
      for name in ["a", "b"] { bench.start(name) }
      try await bench.settled(["a", "b"])
      #expect(try await Set(bench.owners().map { $0?.owner }) == ["a", "b"])
    }
  }

  @Test func aThirdTakesOnlyWhatMustMove() async throws {
    try await withCluster(shards: 16) { bench in
      bench.start("a")
      bench.start("b")
      try await bench.settled(["a", "b"])
      let users = try await bench.attachUsers(12)
      try await bench.callAll(users)
      let before = try await bench.owners()
      bench.start("c")
      try await bench.settled(["a", "b", "c"])
      let after = try await bench.owners()
      for shard in 0..<16 {
        let moved = before[shard]?.owner != after[shard]?.owner
        #expect(after[shard]?.epoch == before[shard].map { moved ? $0.epoch + 1 : $0.epoch })
        if moved { #expect(after[shard]?.owner == "c") }
      }
      try await bench.answerAll(users)
    }
  }

  @Test func oneThatLeavesLosesNoCall() async throws {
    try await withCluster { bench in
      bench.start("a")
      bench.start("b")
      try await bench.settled(["a", "b"])
      let users = try await bench.attachUsers(16)
      try await bench.callAll(users)
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

  /// The last one leaves: another one, later, finds the calls.
  @Test func callsOutliveACompleteStop() async throws {
    try await withCluster { bench in
      bench.start("a")
      try await bench.settled(["a"])
      let users = try await bench.attachUsers(8)
      try await bench.callAll(users)
      try await bench.stop("a")
      #expect(try await bench.owners().allSatisfy { $0?.released == true })
      bench.start("b")
      try await bench.settled(["b"])
      try await bench.answerAll(users)
    }
  }

  @Test func afterACrashAnotherTakesOver() async throws {
    try await withCluster { bench in
      bench.start("a", mortal)
      bench.start("b", mortal)
      try await bench.settled(["a", "b"])
      let users = try await bench.attachUsers(16)
      try await bench.callAll(users)
      await bench.crash("a")
      try await bench.settled(["b"])
      try await bench.answerAll(users)
    }
  }

  /// The same node, at once: its former leases are free, since it is another incarnation.
  @Test func whatLostItsOwnerDoesNotWaitForItToStart() async throws {
    try await withCluster { bench in
      bench.start("a")
      bench.start("b")
      try await bench.settled(["a", "b"])
      let users = try await bench.attachUsers(16)
      try await bench.callAll(users)
      await bench.crash("b")
      // It is back under its name, and takes its time.
      bench.start("b") { $0.settleTime = .seconds(3600) }
      try await eventually("a stands in") {
        try await bench.owners().allSatisfy { $0?.owner == "a" && $0?.released == false }
      }
      try await bench.answerAll(users)
    }
  }

  @Test func aCrashedNodeThatComesBackTakesItsShardsAgain() async throws {
    try await withCluster { bench in
      bench.start("a") { $0.checkpointEveryRecords = 3 }
      try await bench.settled(["a"])
      let users = try await bench.attachUsers(16)
      try await bench.callAll(users)
      await bench.crash("a")
      bench.start("a")
      try await bench.settled(["a"])
      #expect(try await bench.owners().allSatisfy { $0?.epoch == 2 })
      try await bench.answerAll(users)
    }
  }

  /// R23: a former owner that does not know it is fenced speaks to no device and no node.
  @Test func aFencedOwnerIsSilentAndTheShardGoesOn() async throws {
    try await withCluster(shards: 1) { bench in
      bench.start("a")
      try await bench.settled(["a"])
      let user = UserKey.user("u")
      try await bench.edge.attach(user, "phone", session: 1)
      // Somebody else writes behind its back, with a later epoch.
      let end = try await bench.journal.last(shard: 0)?.sequence ?? 0
      let fence = JournalRecord(
        epoch: 5, number: 0, writer: "x", at: bench.clock.now(), entries: [])
      bench.journal.append(shard: 0, expecting: end, ClusterCodec.encode(fence)) { _ in }
      // It steps down, claims anew with an epoch above that one, and answers.
      let reply = try await bench.edge.ask(
        .call(ClusterBench.call(1), .query), from: 1, user, "phone", to: user)
      guard case .call(let state) = reply else { throw Timeout(what: "\(reply)") }
      #expect(state.phase == .unknown)
      #expect(bench.metrics("a").stepDowns.value == 1)
      try await eventually("its new lease") { try await bench.owners()[0]?.epoch == 6 }
    }
  }

  /// Two processes of one name, as after a freeze that a supervisor took for a death, may both get the
  /// same epoch from a store that takes racing writes. Each knows its own records only.
  @Test func whatAnotherRunOfTheSameNodeWroteIsNotItsOwn() async throws {
    try await withCluster(shards: 1) { bench in
      bench.start("a")
      try await bench.settled(["a"])
      let user = UserKey.user("u")
      try await bench.edge.attach(user, "phone", session: 1)
      let stored = try #require(try await bench.journal.last(shard: 0))
      let last = try ClusterCodec.journalRecord(stored.bytes)
      #expect(last.writer != "a" && last.writer.hasPrefix("a/"))
      let next = JournalRecord(
        epoch: last.epoch, number: last.number + 1, writer: "a", at: bench.clock.now(), entries: [],
        previous: stored.sequence)
      bench.journal.append(shard: 0, expecting: stored.sequence, ClusterCodec.encode(next)) { _ in }
      let reply = try await bench.edge.ask(
        .call(ClusterBench.call(1), .query), from: 1, user, "phone", to: user)
      guard case .call = reply else { throw Timeout(what: "\(reply)") }
      #expect(bench.metrics("a").stepDowns.value == 1)
      try await eventually("its new lease") {
        try await bench.owners()[0]?.epoch == last.epoch + 1
      }
    }
  }

  @Test func anEdgeThatFallsSilentAndReturnsAnnouncesItsSessions() async throws {
    try await withCluster { bench in
      bench.start("a", mortal)
      try await bench.settled(["a"])
      let users = try await bench.attachUsers(4)
      bench.edge.stopHeart()
      try await eventually("its sessions are gone") {
        let shards = try await bench.status()["a"]?.coordinator?.shards ?? []
        return shards.count == 8 && shards.allSatisfy { $0.sessions == 0 }
      }
      bench.edge.startHeart()
      try await eventually("its sessions are back") {
        let shards = try await bench.status()["a"]?.coordinator?.shards ?? []
        return shards.reduce(0) { $0 + $1.sessions } == 2 * users.count
      }
      try await bench.callAll(users)
      let shards = try await bench.status()["a"]?.coordinator?.shards ?? []
      #expect(shards.reduce(0) { $0 + $1.deliveriesTotal } >= UInt64(users.count))
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
    try await withCluster { bench in
      bench.start("a", quick)
      bench.start("b", quick)
      try await bench.settled(["a", "b"])
      let users = try await bench.attachUsers(16)
      try await bench.callAll(users)
      let held = try await bench.owners().count { $0?.owner == "a" }
      await bench.crash("a")
      try await bench.settled(["b"])
      try await bench.answerAll(users)
      #expect(bench.metrics("b").takeoverPause.count == UInt64(held))
    }
  }

  /// Each side measures the pauses that it knows of.
  @Test func pausesAreMeasured() async throws {
    try await withCluster { bench in
      bench.start("a")
      try await bench.settled(["a"])
      #expect(bench.metrics("a").handoverPause.count == 0)
      #expect(bench.metrics("a").takeoverPause.count == 0)
      bench.start("b")
      try await bench.settled(["a", "b"])
      let moved = try await bench.owners().count { $0?.owner == "b" }
      #expect(moved > 0)
      #expect(bench.metrics("b").handoverPause.count == UInt64(moved))
      #expect(bench.metrics("b").takeoverPause.count == 0)
      let status = try await bench.status()["b"]?.coordinator
      #expect(status?.handoverPause?.count == UInt64(moved))
    }
  }

  @Test func operatorsSeeACall() async throws {
    try await withCluster { bench in
      bench.start("a")
      bench.start("b")
      try await bench.settled(["a", "b"])
      let users = try await bench.attachUsers(2)
      try await bench.callAll(users)
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

  @Test func aSecondNodeOfTheSameNameIsRefused() async throws {
    try await withCluster { bench in
      bench.start("a")
      try await bench.settled(["a"])
      var configuration = testConfiguration("a")
      // It waits for so long for a heartbeat of the other one, which a busy machine delays.
      configuration.settleTime = .seconds(30)
      let twin = CoordinatorNode(
        configuration: configuration, bus: bench.bus, clock: bench.clock,
        metrics: MetricsRegistry(), logger: quietLogger())
      await #expect(throws: CoordinatorError.nodeIDTaken("a")) { try await twin.run() }
      try await bench.settled(["a"])
    }
  }

  @Test func impossibleConfigurationsAreRefusedWithASentence() async throws {
    try await withCluster { bench in
      for change: (inout CoordinatorConfiguration) -> Void in [
        { $0.nodeID = "" }, { $0.shardCount = 0 }, { $0.workers = 0 },
        { $0.heartbeatInterval = $0.leaseTimeout }, { $0.checkpointEveryRecords = 0 },
      ] {
        var configuration = testConfiguration("a")
        change(&configuration)
        let node = CoordinatorNode(
          configuration: configuration, bus: bench.bus, clock: bench.clock,
          metrics: MetricsRegistry(), logger: quietLogger())
        await #expect(throws: CoordinatorError.self) { try await node.run() }
      }
    }
  }
}
