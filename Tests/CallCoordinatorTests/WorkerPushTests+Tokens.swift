import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

extension WorkerPushTests {
  // MARK: R13

  private func isTakingNoticed(_ bench: WorkerBench) -> Bool {
    bench.edge.items.contains {
      if case .notice(let notice) = $0.body { notice.kind == .tokenTaken } else { false }
    }
  }

  @Test("R13: another shard's device loses the token before the new one is told")
  func acrossShards() async throws {
    try await WorkerBench().serve(0..<WorkerBench.shards) { bench in
      let bob = bench.user(0)
      let carol = bench.user(1)
      try await bench.edge.attach(bob, "b1", session: 7)
      #expect(try await bench.register(bob, "b1", "t1").isRegistered)
      #expect(try await bench.owner("t1")?.user == bob)
      #expect(try await bench.register(carol, "c1", "t1").isRegistered)
      #expect(await bench.voipToken(bob, "b1") == nil)
      #expect(await bench.voipToken(carol, "c1") == "t1")
      #expect(try await bench.owner("t1")?.user == carol)
      #expect(isTakingNoticed(bench))
      // More where a slow machine had a question retransmitted.
      #expect(bench.metrics.tokenClaims.value >= 2)
    }
  }

  /// An app once took the token, and pushes no longer reached the device of the first app.
  @Test("an app takes no token from another") func apps() async throws {
    try await WorkerBench().serve(0..<WorkerBench.shards) { bench in
      let bob = bench.user(0)
      let mallory = UserKey(app: "other", user: "mallory")
      try await bench.edge.attach(bob, "b1", session: 7)
      for (user, device) in [(bob, "b1"), (mallory, "m1"), (bob, "b1")] as [(UserKey, DeviceID)] {
        #expect(try await bench.register(user, device, "t1").isRegistered)
      }
      #expect(await bench.voipToken(bob, "b1") == "t1")
      #expect(try await bench.owner("t1")?.user == bob)
      #expect(try await bench.owner("t1", app: "other")?.user == mallory)
      #expect(
        try await bench.edge.ask(.unregister("m1"), from: 50, mallory, "m1", to: mallory) == .done)
      try await eventually("the claim is gone") { try await bench.owner("t1", app: "other") == nil }
      #expect(try await bench.owner("t1")?.user == bob)
      #expect(!isTakingNoticed(bench))
    }
  }

  /// Earlier versions had one key for all apps.
  @Test("a claim of an earlier version counts for its app alone", arguments: [true, false])
  func earlierClaim(isOwn: Bool) async throws {
    try await WorkerBench().serve(0..<WorkerBench.shards) { bench in
      let (bob, carol) = (bench.user(0), bench.user(1))
      _ = try await bench.register(carol, "c1", "t1")
      let key = Subjects.tokenKey("fpt1", app: carol.app)
      let value = try #require(try await bench.tokens.get(key)?.value)
      let own = try ClusterCodec.tokenOwner(value)
      let other = TokenOwner(
        user: UserKey(app: "other", user: "mallory"), device: "m1", claimedAt: own.claimedAt)
      _ = await bench.tokens.put("fpt1", ClusterCodec.encode(isOwn ? own : other), expecting: nil)
      _ = await bench.tokens.delete(key)
      #expect(try await bench.register(bob, "b1", "t1").isRegistered)
      #expect(try await bench.owner("t1")?.user == bob)
      #expect(await bench.voipToken(carol, "c1") == (isOwn ? nil : "t1"))
    }
  }

  @Test("R13: two race for one token: one owner, and nobody else has it", arguments: 0..<5)
  func race(round: Int) async throws {
    try await WorkerBench().serve(0..<WorkerBench.shards) { bench in
      let users = (0..<WorkerBench.shards).map { bench.user($0, round) }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for user in users {
          group.addTask {
            // As a device does: until it is registered.
            while try await !bench.register(user, "d", "t1").isRegistered {}
          }
        }
        try await group.waitForAll()
      }
      let owner = try #require(try await bench.owner("t1"))
      var holders: [UserKey] = []
      for user in users where await bench.voipToken(user, "d") != nil { holders.append(user) }
      #expect(holders == [owner.user])
    }
  }

  @Test("R13: the former owner's shard is silent: try again, and later it works")
  func silentShard() async throws {
    try await WorkerBench { $0.formerOwnerTimeout = .milliseconds(50) }.serve { bench in
      let bob = bench.user(0)
      let carol = bench.user(1)
      let former = TokenOwner(user: carol, device: "c1", claimedAt: bench.clock.now())
      _ = await bench.tokens.put("fpt1", ClusterCodec.encode(former), expecting: nil)
      #expect(try await bench.register(bob, "b1", "t1").isTryAgain)
      #expect(await bench.voipToken(bob, "b1") == nil)
      try await bench.adopt(1)
      try await eventually("bob is registered") {
        try await bench.register(bob, "b1", "t1").isRegistered
      }
      #expect(try await bench.owner("t1")?.user == bob)
    }
  }

  @Test("R13: the claims' bucket fails: try again; a claim of unknown fate is looked up")
  func bucketFails() async throws {
    try await WorkerBench().serve { bench in
      let bob = bench.user(0)
      let once = Once()
      bench.bus.setFaults {
        $0.onPut = { bucket, _ in
          bucket == "tokens" && once.first() ? .unknown(stored: true) : nil
        }
      }
      #expect(try await bench.register(bob, "b1", "t1").isRegistered)
      bench.bus.setFaults { $0.onPut = { bucket, _ in bucket == "tokens" ? .refuse : nil } }
      #expect(try await bench.register(bob, "b2", "t2").isTryAgain)
      bench.bus.setFaults { $0.onPut = nil }
      let reply = try await bench.register(bob, "b2", "t2")
      #expect(reply.isRegistered)
    }
  }

  @Test("a claim is released with its registration, unless it is another's by then")
  func released() async throws {
    try await WorkerBench().serve(0..<WorkerBench.shards) { bench in
      let bob = bench.user(0)
      _ = try await bench.register(bob, "b1", "t1")
      #expect(try await bench.edge.ask(.unregister("b1"), from: 50, bob, "b1", to: bob) == .done)
      try await eventually("the claim is gone") { try await bench.owner("t1") == nil }
      let carol = bench.user(1)
      _ = try await bench.register(bob, "b1", "t2")
      _ = try await bench.register(carol, "c1", "t2")
      #expect(try await bench.edge.ask(.unregister("b1"), from: 50, bob, "b1", to: bob) == .done)
      try await bench.flush()
      #expect(try await bench.owner("t2")?.user == carol)
    }
  }

  @Test("while a coordinator of an earlier version lives, nobody is pushed and nothing claimed")
  func switchedOff() async throws {
    try await WorkerBench().serve { bench in
      let bob = bench.user(0)
      bench.worker.inbox.offer(.journalFormat(1))
      #expect(try await bench.register(bob, "b1", "t1").isRegistered)
      #expect(try await bench.owner("t1") == nil)
      let reply = try await bench.edge.ask(
        .place(PlaceRequest(call: call)), from: 2, caller, "a1", to: bob)
      #expect(reply.call?.phase == .placed, "it waits for devices between two edges")
      #expect(bench.outlet.kept.isEmpty)
      bench.worker.inbox.offer(.journalFormat(2))
      let next = CallID(high: 3, low: 5)
      try await bench.edge.place(next, from: 3, caller, to: bob)
      try await eventually("pushed") { bench.outlet.kept.count == 1 }
    }
  }
}
