import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Synchronization
import Testing

extension WorkerPushTests {
  // MARK: R13

  @Test("R13: another shard's device loses the token before the new one is told")
  func acrossShards() async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
      let bob = bench.user(0)
      let carol = bench.user(1)
      try await bench.edge.attach(bob, "b1", session: 7)
      guard case .registered = try await bench.register(bob, "b1", "t1") else {
        Issue.record("bob is not registered")
        return
      }
      #expect(try await bench.owner("t1")?.user == bob)
      guard case .registered = try await bench.register(carol, "c1", "t1") else {
        Issue.record("carol is not registered")
        return
      }
      #expect(await bench.voipToken(bob, "b1") == nil)
      #expect(await bench.voipToken(carol, "c1") == "t1")
      #expect(try await bench.owner("t1")?.user == carol)
      #expect(
        bench.edge.items.contains {
          if case .notice(let notice) = $0.body { notice.kind == .tokenTaken } else { false }
        })
      // More where a slow machine had a question retransmitted.
      #expect(bench.metrics.tokenClaims.value >= 2)
    }
  }

  /// An app once took the token, and pushes no longer reached the device of the first app.
  @Test("an app takes no token from another") func apps() async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
      let bob = bench.user(0)
      let mallory = UserKey(app: "other", user: "mallory")
      try await bench.edge.attach(bob, "b1", session: 7)
      for (user, device) in [(bob, "b1"), (mallory, "m1"), (bob, "b1")] as [(UserKey, DeviceID)] {
        guard case .registered = try await bench.register(user, device, "t1") else {
          Issue.record("\(user) is not registered")
          return
        }
      }
      #expect(await bench.voipToken(bob, "b1") == "t1")
      #expect(try await bench.owner("t1")?.user == bob)
      #expect(try await bench.owner("t1", app: "other")?.user == mallory)
      #expect(
        try await bench.edge.ask(.unregister("m1"), from: 50, mallory, "m1", to: mallory) == .done)
      try await eventually("the claim is gone") {
        try await bench.owner("t1", app: "other") == nil
      }
      #expect(try await bench.owner("t1")?.user == bob)
      #expect(
        !bench.edge.items.contains {
          if case .notice(let notice) = $0.body { notice.kind == .tokenTaken } else { false }
        })
    }
  }

  /// Earlier versions had one key for all apps.
  @Test("a claim of an earlier version counts for its app alone", arguments: [true, false])
  func earlierClaim(isOwn: Bool) async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
      let (bob, carol) = (bench.user(0), bench.user(1))
      _ = try await bench.register(carol, "c1", "t1")
      let key = Subjects.tokenKey("fpt1", app: carol.app)
      let value = try #require(try await bench.tokens.get(key)?.value)
      let own = try ClusterCodec.tokenOwner(value)
      let other = TokenOwner(
        user: UserKey(app: "other", user: "mallory"), device: "m1", claimedAt: own.claimedAt)
      for (key, value) in [
        ("fpt1", ClusterCodec.encode(isOwn ? own : other) as [UInt8]?), (key, nil),
      ] {
        await withCheckedContinuation { done in
          if let value {
            bench.tokens.put(key, value, expecting: nil) { _ in done.resume() }
          } else {
            bench.tokens.delete(key, expecting: nil) { _ in done.resume() }
          }
        }
      }
      guard case .registered = try await bench.register(bob, "b1", "t1") else {
        Issue.record("not registered")
        return
      }
      #expect(try await bench.owner("t1")?.user == bob)
      #expect(await bench.voipToken(carol, "c1") == (isOwn ? nil : "t1"))
    }
  }

  @Test("R13: two race for one token: one owner, and nobody else has it", arguments: 0..<5)
  func race(round: Int) async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
      let users = (0..<WorkerBench.shards).map { bench.user($0, round) }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for user in users {
          group.addTask {
            // As a device does: until it is registered.
            while true {
              if case .registered = try await bench.register(user, "d", "t1") { return }
            }
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
    try await WorkerBench { $0.formerOwnerTimeout = .milliseconds(50) }.run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      let carol = bench.user(1)
      let former = TokenOwner(user: carol, device: "c1", claimedAt: bench.clock.now())
      _ = await withCheckedContinuation { done in
        bench.tokens.put("fpt1", ClusterCodec.encode(former), expecting: nil) {
          done.resume(returning: $0)
        }
      }
      let refused = try await bench.register(bob, "b1", "t1")
      guard case .error(let error) = refused, error.code == .tryAgain else {
        Issue.record("not refused: \(refused)")
        return
      }
      #expect(await bench.voipToken(bob, "b1") == nil)
      try await bench.adopt(1)
      try await eventually("bob is registered") {
        if case .registered = try await bench.register(bob, "b1", "t1") { true } else { false }
      }
      #expect(try await bench.owner("t1")?.user == bob)
    }
  }

  @Test("R13: the claims' bucket fails: try again; a claim of unknown fate is looked up")
  func bucketFails() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      let once = Once()
      bench.bus.setFaults {
        $0.onPut = { bucket, _ in
          bucket == "tokens" && once.first() ? .unknown(stored: true) : nil
        }
      }
      guard case .registered = try await bench.register(bob, "b1", "t1") else {
        Issue.record("a claim that arrived is a claim")
        return
      }
      bench.bus.setFaults { $0.onPut = { bucket, _ in bucket == "tokens" ? .refuse : nil } }
      let refused = try await bench.register(bob, "b2", "t2")
      guard case .error(let error) = refused, error.code == .tryAgain else {
        Issue.record("not refused: \(refused)")
        return
      }
      bench.bus.setFaults { $0.onPut = nil }
      guard case .registered = try await bench.register(bob, "b2", "t2") else {
        Issue.record("still refused")
        return
      }
    }
  }

  @Test("a claim is released with its registration, unless it is another's by then")
  func released() async throws {
    try await WorkerBench().run { bench in
      for shard in 0..<WorkerBench.shards { try await bench.adopt(shard) }
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
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      bench.worker.inbox.offer(.journalFormat(1))
      guard case .registered = try await bench.register(bob, "b1", "t1") else {
        Issue.record("not registered")
        return
      }
      #expect(try await bench.owner("t1") == nil)
      let reply = try await bench.edge.ask(
        .place(PlaceRequest(call: call)), from: 2, caller, "a1", to: bob)
      guard case .call(let state) = reply else {
        Issue.record("\(reply)")
        return
      }
      #expect(state.phase == .placed, "it waits for devices between two edges")
      #expect(bench.outlet.kept.isEmpty)
      bench.worker.inbox.offer(.journalFormat(2))
      let next = CallID(high: 3, low: 5)
      try await bench.edge.place(next, from: 3, caller, to: bob)
      try await eventually("pushed") { bench.outlet.kept.count == 1 }
    }
  }
}
