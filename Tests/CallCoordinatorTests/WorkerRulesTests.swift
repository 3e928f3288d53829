import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

extension WorkerBench {
  private static func rules(_ user: String) -> UserRules {
    UserRules(always: UserRules.Forward(users: [user]))
  }

  fileprivate func write(_ key: UserKey, to user: String) async throws -> Reply {
    try await edge.ask(.rules(.write(Self.rules(user))), from: 50, key, "phone", to: key)
  }

  /// To whom the store has the user's calls forwarded; nil: it has no rules.
  fileprivate func stored(_ key: UserKey) async throws -> String? {
    guard let value = try await registrations.get(rulesKey(key))?.value else { return nil }
    return try ClusterCodec.rules(value).rules.always?.users.first
  }

  fileprivate func rulesKey(_ user: UserKey) -> String {
    Subjects.rulesKey(
      shard: ShardHash.shard(of: user, count: Self.shards), app: user.app, user: user.user)
  }

  /// Writes rules as another owner of the shard, of which this one knows nothing.
  fileprivate func anotherWrites(_ key: UserKey, to user: String) async throws {
    let stored = ClusterCodec.encode(StoredRules(user: key, rules: Self.rules(user)))
    let result = await withCheckedContinuation { continuation in
      registrations.put(rulesKey(key), stored, expecting: nil) {
        continuation.resume(returning: $0)
      }
    }
    guard case .appended = result else { throw Timeout(what: "stored by another: \(result)") }
  }
}

extension Reply {
  fileprivate var forwardsTo: String? {
    if case .rules(let rules) = self { rules.always?.users.first } else { nil }
  }
  fileprivate var isTryAgain: Bool {
    if case .error(let error) = self { error.code == .tryAgain } else { false }
  }
}

@Suite("rules of users on their way to the store")
struct WorkerRulesTests {
  @Test("they are stored under a key of their own, and removed")
  func storedAndRemoved() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      #expect(try await bench.write(bob, to: "carol").forwardsTo == "carol")
      #expect(try await bench.stored(bob) == "carol")
      #expect(try await bench.write(bob, to: "dave").forwardsTo == "dave")
      #expect(try await bench.stored(bob) == "dave")
      let removed = try await bench.edge.ask(
        .rules(.write(UserRules())), from: 50, bob, "phone", to: bob)
      #expect(removed == .rules(UserRules()))
      #expect(try await bench.stored(bob) == nil)
      // A registration of the user is another key.
      let registered = try await bench.edge.ask(
        .register(RegistrationRequest(deviceName: "phone")), from: 50, bob, "phone", to: bob)
      guard case .registered = registered else { throw Timeout(what: "\(registered)") }
      #expect(try await bench.stored(bob) == nil)
    }
  }

  @Test("what a later owner wrote is not written over")
  func notOverAnothers() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      #expect(try await bench.write(bob, to: "old").forwardsTo == "old")
      try await bench.anotherWrites(bob, to: "newer")
      #expect(try await bench.write(bob, to: "older").isTryAgain)
      #expect(try await bench.stored(bob) == "newer")
      let read = try await bench.edge.ask(.rules(.read), from: 50, bob, "phone", to: bob)
      #expect(read.forwardsTo == "old")
    }
  }

  @Test("a write that was taken without an answer is found, and counts; one that was not, does not")
  func withoutAnswer() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      bench.bus.setFaults { faults in
        faults.onPut = { bucket, _ in bucket == "registrations" ? .unknown(stored: true) : nil }
      }
      #expect(try await bench.write(bob, to: "one").forwardsTo == "one")
      #expect(try await bench.stored(bob) == "one")
      bench.bus.setFaults { faults in
        faults.onPut = { bucket, _ in bucket == "registrations" ? .unknown(stored: false) : nil }
      }
      #expect(try await bench.write(bob, to: "two").isTryAgain)
      #expect(try await bench.stored(bob) == "one")
    }
  }
}
