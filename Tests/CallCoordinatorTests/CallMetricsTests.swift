import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

/// The metrics of calls over a cluster, and over the life of a shard.
@Suite(.timeLimit(.minutes(4))) struct CallMetricsTests {
  /// The sums over all nodes that there ever were.
  private struct Sums {
    var placed: UInt64 = 0
    var answered: UInt64 = 0
    var ended: [EndReason: UInt64] = [:]
    var rang: UInt64 = 0
    var talked: UInt64 = 0

    init(_ all: [CallMetrics]) {
      for calls in all {
        placed += calls.placed.value
        answered += calls.answered.value
        rang += calls.ringing.count
        talked += calls.talking.count
        for reason in EndReason.allCases { ended[reason, default: 0] += calls.ended(reason) }
      }
    }
  }

  private func withCluster(_ body: (ClusterBench) async throws -> Void) async throws {
    let bench = try await ClusterBench()
    do { try await body(bench) } catch {
      await bench.finish()
      throw error
    }
    await bench.finish()
  }

  @Test("each call is counted once, over a crash, a hand-over and the replays that follow")
  func onceOverTakeOvers() async throws {
    try await withCluster { bench in
      for name in ["a", "b"] { bench.start(name, mortal) }
      try await bench.settled(["a", "b"])
      var all = ["a", "b"].map { bench.metrics($0).calls }
      let users = try await bench.attachUsers(12)
      try await bench.callAll(users)
      #expect(Sums(all).placed == 12)
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
        guard case .call = reply else { throw Timeout(what: "hang-up: \(reply)") }
      }
      let sums = Sums(all)
      #expect(sums.placed == 12)
      #expect(sums.answered == 12)
      #expect(sums.ended[.hungUp] == 12)
      #expect(sums.ended.values.reduce(0, +) == 12)
      #expect(sums.rang == 12)
      #expect(sums.talked == 12)
    }
  }

  @Test("what the journal does not have is not counted") func notBeforeTheJournal() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      try await bench.edge.attach(bob, "b1", session: 1)
      bench.journal.hold()
      let call = CallID(high: 7, low: 7)
      bench.edge.send(
        .place(PlaceRequest(call: call)), from: 2, .user("ann"), "a1", to: bob, request: 900)
      try await eventually("the append waits") { bench.journal.waiting == 1 }
      #expect(bench.metrics.calls.placed.value == 0)
      bench.journal.letGo()
      try await eventually("it is counted") { bench.metrics.calls.placed.value == 1 }
      bench.edge.send(.call(call, .cancel), from: 2, .user("ann"), "a1", to: bob, request: 901)
      try await eventually("so is its end") { bench.metrics.calls.ended(.cancelled) == 1 }
      #expect(bench.metrics.calls.ringing.count == 1)
      #expect(bench.metrics.calls.talking.count == 0)
    }
  }

  @Test("live calls are those of the shards that are held") func liveCalls() async throws {
    let registry = MetricsRegistry()
    try await WorkerBench(registry: registry).run { bench in
      func live(_ state: String) -> String? {
        let name = "callmesh_calls_live{state=\"\(state)\"} "
        return registry.render().split(separator: "\n").first { $0.hasPrefix(name) }
          .map { String($0.dropFirst(name.count)) }
      }
      #expect(["placed", "ringing", "answered"].map(live) == ["0", "0", "0"])
      let term = try await bench.adopt(0)
      let bob = bench.user(0)
      try await bench.edge.attach(bob, "b1", session: 1)
      let calls = (1...3).map { CallID(high: 7, low: $0) }
      for (index, call) in calls.enumerated() {
        try await bench.edge.place(
          call, from: UInt64(10 + index), .user("ann\(index)"), to: bob)
      }
      try await eventually("all are placed") { live("placed") == "3" }
      _ = try await bench.edge.ask(.call(calls[0], .alerting), from: 1, bob, "b1", to: bob)
      _ = try await bench.edge.ask(
        .call(calls[1], .answer(description: "")), from: 1, bob, "b1", to: bob)
      try await eventually("one each") {
        ["placed", "ringing", "answered"].map(live) == ["1", "1", "1"]
      }
      bench.worker.inbox.offer(.deposed(shard: 0, epoch: term.epoch + 1))
      try await eventually("none is held") {
        ["placed", "ringing", "answered"].map(live) == ["0", "0", "0"]
      }
    }
  }

  /// Accepted calls have half of the journal for their ends; a checkpoint makes room.
  @Test("a journal that fills up refuses calls, then descriptions, and never an end")
  func aFullJournal() async throws {
    try await WorkerBench({
      $0.journal.bytesPerShard = 40_000
      $0.checkpointEveryBytes = 10_000
      $0.checkpointRetry = .milliseconds(1)
    }).run { bench in
      try await bench.adopt(0)
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
      func say() async throws -> Reply {
        try await bench.edge.ask(
          .call(calls[0], .signal(.description, body: large)), from: 1, bob, "b1", to: bob)
      }
      func isOverloaded(_ reply: Reply) -> Bool {
        if case .error(let error) = reply { error.code == .overloaded } else { false }
      }
      func place() async throws -> Reply {
        try await bench.edge.ask(
          .place(PlaceRequest(call: CallID(high: 9, low: .random(in: 1 ... .max)))), from: 20,
          .user("eve"), "phone", to: bob)
      }
      for _ in 0..<4 { #expect(!isOverloaded(try await say())) }
      #expect(isOverloaded(try await place()))
      #expect(!isOverloaded(try await say()))
      var refusals = 0
      for _ in 0..<10 where isOverloaded(try await say()) { refusals += 1 }
      #expect(refusals > 5)
      let ended = try await bench.edge.ask(.call(calls[0], .hangUp), from: 1, bob, "b1", to: bob)
      #expect(!isOverloaded(ended))
      bench.failCheckpoints(false)
      var reply = try await place()
      while isOverloaded(reply) { reply = try await place() }
      guard case .call = reply else {
        Issue.record("\(reply)")
        return
      }
    }
  }

  @Test("the last invite to an edge tells since when its call was to ring; no later invite does")
  func ringsSince() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      for session in UInt64(1)...3 {
        try await bench.edge.attach(bob, DeviceID("b\(session)"), session: session)
      }
      let call = CallID(high: 7, low: 7)
      let received = Timestamp(microseconds: 1_700_000_000_000_123)
      let request = PlaceRequest(call: call, receivedAt: received)
      let reply = try await bench.edge.ask(
        .place(request), from: 9, .user("ann"), "a1", to: bob)
      guard case .call = reply else { throw Timeout(what: "place: \(reply)") }
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
    try await withCluster { bench in
      bench.start("a", registry: registry)
      try await bench.settled(["a"])
      func depth(_ lane: String) -> String? {
        let name = "callmesh_push_queue_depth{lane=\"\(lane)\"} "
        return registry.render().split(separator: "\n").first { $0.hasPrefix(name) }
          .map { String($0.dropFirst(name.count)) }
      }
      try await eventually("all are known") { PushToken.lanes.allSatisfy { depth($0) == "0" } }
      let queue = try await bench.bus.openWorkQueue(WorkQueueOptions())
      queue.add(lane: "apns-sandbox", id: "1", [1]) { _ in }
      try await eventually("what nobody takes is seen") { depth("apns-sandbox") == "1" }
      #expect(depth("fcm") == "0")
    }
  }
}
