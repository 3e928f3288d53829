import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

/// The metrics of calls over a cluster, and over the life of a shard.
@Suite(.timeLimit(.minutes(4))) struct CallMetricsTests {
  @Test("each call is counted once, over a crash, a hand-over and the replays that follow")
  func onceOverTakeOvers() async throws {
    try await ClusterBench.run(["a", "b"], changing: mortal) { bench in
      var all = ["a", "b"].map { bench.metrics($0).calls }
      /// Over all nodes that there ever were.
      func sum(_ value: (CallMetrics) -> UInt64) -> UInt64 { all.reduce(0) { $0 + value($1) } }
      let users = try await bench.ring(12)
      #expect(sum(\.placed.value) == 12)
      await bench.crash("a")
      try await bench.settled(["b"])
      try await bench.answerAll(users)
      bench.start("c", mortal)
      all.append(bench.metrics("c").calls)
      try await bench.settled(["b", "c"])
      try await bench.stop("b")
      try await bench.settled(["c"])
      for index in users.indices {
        let reply = try await bench.edge.ask(
          .call(ClusterBench.call(index), .hangUp), from: ClusterBench.callerSession(index),
          ClusterBench.caller(index), "phone", to: users[index])
        #expect(reply.call != nil, "\(reply)")
      }
      #expect(sum(\.placed.value) == 12)
      #expect(sum(\.answered.value) == 12)
      #expect(sum { $0.ended(.hungUp) } == 12)
      #expect(sum { calls in EndReason.allCases.reduce(0) { $0 + calls.ended($1) } } == 12)
      #expect(sum(\.ringing.count) == 12)
      #expect(sum(\.talking.count) == 12)
    }
  }

  @Test("live calls are those of the shards that are held") func liveCalls() async throws {
    let registry = MetricsRegistry()
    try await WorkerBench(registry: registry).run { bench in
      func live() -> [String?] {
        ["placed", "ringing", "answered"].map {
          registry.value(of: "callmesh_calls_live{state=\"\($0)\"}")
        }
      }
      #expect(live() == ["0", "0", "0"])
      try await bench.adopt(0)
      let bob = bench.user(0)
      try await bench.edge.attach(bob, "b1", session: 1)
      let calls = (1...3).map { CallID(high: 7, low: $0) }
      for (index, call) in calls.enumerated() {
        try await bench.edge.place(call, from: UInt64(10 + index), .user("ann\(index)"), to: bob)
      }
      try await eventually("all are placed") { live()[0] == "3" }
      _ = try await bench.edge.ask(.call(calls[0], .alerting), from: 1, bob, "b1", to: bob)
      _ = try await bench.edge.ask(
        .call(calls[1], .answer(description: "")), from: 1, bob, "b1", to: bob)
      try await eventually("one each") { live() == ["1", "1", "1"] }
      try await bench.depose()
      try await eventually("none is held") { live() == ["0", "0", "0"] }
    }
  }

  /// Accepted calls have half of the journal for their ends; a checkpoint makes room.
  @Test("a journal that fills up refuses calls, then descriptions, and never an end")
  func aFullJournal() async throws {
    try await WorkerBench({
      $0.journal.bytesPerShard = 40_000
      $0.checkpointEveryBytes = 10_000
      $0.checkpointRetry = .milliseconds(1)
    }).serve { bench in
      bench.failCheckpoints(true)
      let bob = bench.user(0)
      try await bench.edge.attach(bob, "b1", session: 1)
      let calls = (1...2).map { CallID(high: 7, low: $0) }
      for call in calls {
        try await bench.edge.place(call, from: 8 + call.low, .user("ann\(call.low)"), to: bob)
      }
      _ = try await bench.edge.ask(
        .call(calls[0], .answer(description: "")), from: 1, bob, "b1", to: bob)
      let large = String(repeating: "x", count: 5000)
      func isDescriptionRefused() async throws -> Bool {
        try await bench.edge.ask(
          .call(calls[0], .signal(.description, body: large)), from: 1, bob, "b1", to: bob
        ).isError(.overloaded)
      }
      func place() async throws -> Reply {
        try await bench.edge.ask(
          .place(PlaceRequest(call: CallID(high: 9, low: .random(in: 1 ... .max)))), from: 20,
          .user("eve"), "phone", to: bob)
      }
      for _ in 0..<4 { #expect(try await isDescriptionRefused() == false) }
      let refused = try await place()
      #expect(refused.isError(.overloaded))
      #expect(try await isDescriptionRefused() == false)
      var refusals = 0
      for _ in 0..<10 where try await isDescriptionRefused() { refusals += 1 }
      #expect(refusals > 5)
      let ended = try await bench.edge.ask(.call(calls[0], .hangUp), from: 1, bob, "b1", to: bob)
      #expect(!ended.isError(.overloaded))
      bench.failCheckpoints(false)
      var reply = try await place()
      while reply.isError(.overloaded) { reply = try await place() }
      #expect(reply.call != nil, "\(reply)")
    }
  }

  @Test("the last invite to an edge tells since when its call was to ring; no later invite does")
  func ringsSince() async throws {
    try await WorkerBench().serve { bench in
      let bob = bench.user(0)
      for session in UInt64(1)...3 {
        try await bench.edge.attach(bob, DeviceID("b\(session)"), session: session)
      }
      let call = CallID(high: 7, low: 7)
      let received = Timestamp(microseconds: 1_700_000_000_000_123)
      let request = PlaceRequest(call: call, receivedAt: received)
      let reply = try await bench.edge.ask(.place(request), from: 9, .user("ann"), "a1", to: bob)
      #expect(reply.call != nil, "\(reply)")
      try await bench.edge.attach(bob, "late", session: 4)
      try await bench.flush()
      // On a busy machine some are retransmitted.
      var versions: Set<UInt64> = []
      let invites = bench.edge.items.filter {
        guard case .delivery(let delivery) = $0.body, case .invite = delivery.event else {
          return false
        }
        return versions.insert(delivery.version).inserted
      }
      #expect(Set(invites.map(\.session)) == [1, 2, 3, 4])
      #expect(invites.compactMap(\.ringsSince) == [received])
      #expect(invites.filter { $0.session != 4 }.last?.ringsSince == received)
      #expect(bench.edge.items.count { $0.ringsSince != nil } == 1)
    }
  }

  @Test("the depth of every lane is a metric of coordinators, also where no gateway serves it")
  func queueDepths() async throws {
    let registry = MetricsRegistry()
    try await ClusterBench.run { bench in
      bench.start("a", registry: registry)
      try await bench.settled(["a"])
      func depth(_ lane: String) -> String? {
        registry.value(of: "callmesh_push_queue_depth{lane=\"\(lane)\"}")
      }
      try await eventually("all are known") { PushToken.lanes.allSatisfy { depth($0) == "0" } }
      let queue = try await bench.bus.openWorkQueue(WorkQueueOptions())
      queue.add(lane: "apns-sandbox", id: "1", [1]) { _ in }
      try await eventually("what nobody takes is seen") { depth("apns-sandbox") == "1" }
      #expect(depth("fcm") == "0")
    }
  }
}

extension MetricsRegistry {
  /// The value of one series on the metrics page.
  fileprivate func value(of series: String) -> String? {
    render().split(separator: "\n").first { $0.hasPrefix(series + " ") }
      .map { String($0.dropFirst(series.utf8.count + 1)) }
  }
}
