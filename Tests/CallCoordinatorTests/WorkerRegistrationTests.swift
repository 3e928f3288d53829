import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

extension WorkerBench {
  fileprivate func register(_ user: UserKey, named name: String) async throws -> Reply {
    try await edge.ask(
      .register(RegistrationRequest(deviceName: name)), from: 50, user, "phone", to: user)
  }

  fileprivate func unregister(_ user: UserKey) async throws -> Reply {
    try await edge.ask(.unregister("phone"), from: 50, user, "phone", to: user)
  }

  fileprivate func key(_ user: UserKey) -> String {
    Subjects.registrationKey(
      shard: ShardHash.shard(of: user, count: Self.shards), app: user.app, user: user.user,
      device: "phone")
  }

  /// The name under which the store has the device; nil: it has not.
  fileprivate func stored(_ user: UserKey) async throws -> String? {
    guard let value = try await registrations.get(key(user))?.value else { return nil }
    return try ClusterCodec.registration(value).request.deviceName
  }

  /// Writes a registration as another owner of the shard, of which this one knows nothing.
  fileprivate func anotherWrites(_ user: UserKey, named name: String) async throws {
    let registration = Registration(
      user: user, device: "phone", request: RegistrationRequest(deviceName: name),
      registeredAt: clock.now(), seenAt: clock.now())
    let result = await withCheckedContinuation { continuation in
      registrations.put(key(user), ClusterCodec.encode(registration), expecting: nil) {
        continuation.resume(returning: $0)
      }
    }
    guard case .appended = result else { throw Timeout(what: "stored by another: \(result)") }
  }

  /// Asks until it is answered otherwise than by "try again".
  @inline(never)
  fileprivate func untilTaken(_ ask: () async throws -> Reply) async throws -> Reply {
    for _ in 0..<100 {
      let reply = try await ask()
      if case .error(let error) = reply, error.code == .tryAgain { continue }
      return reply
    }
    throw Timeout(what: "the store takes it")
  }
}

extension Reply {
  fileprivate var isTryAgain: Bool {
    if case .error(let error) = self { error.code == .tryAgain } else { false }
  }
  fileprivate var isRegistered: Bool { if case .registered = self { true } else { false } }
}

@Suite("registrations on their way to the store")
struct WorkerRegistrationTests {
  @Test("a result that nothing waits for is a bug: it is counted, and the shard goes on")
  func resultsThatNothingWaitsFor() async throws {
    try await WorkerBench().run { bench in
      let term = try await bench.adopt(0)
      bench.worker.inbox.offer(.registrationFailed(term, token: 99))
      try await eventually("it is counted") { bench.metrics.internalFaults.value == 1 }
      #expect(try await bench.register(bench.user(0), named: "phone").isRegistered)
      #expect(bench.metrics.internalFaults.value == 1)
    }
  }

  @Test("what a later owner wrote is not written over: the device tries again")
  func notOverAnothers() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      #expect(try await bench.register(bob, named: "old").isRegistered)
      try await bench.anotherWrites(bob, named: "newer")
      #expect(try await bench.register(bob, named: "older").isTryAgain)
      #expect(try await bench.stored(bob) == "newer")
      // It owns the shard after all, as the journal shows: then the next one counts.
      let reply = try await bench.untilTaken { try await bench.register(bob, named: "newest") }
      #expect(reply.isRegistered)
      #expect(try await bench.stored(bob) == "newest")
    }
  }

  @Test("nor is it removed")
  func notRemoved() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      #expect(try await bench.register(bob, named: "old").isRegistered)
      try await bench.anotherWrites(bob, named: "newer")
      #expect(try await bench.unregister(bob).isTryAgain)
      #expect(try await bench.stored(bob) == "newer")
      let reply = try await bench.untilTaken { try await bench.unregister(bob) }
      #expect(reply == .done)
      #expect(try await bench.stored(bob) == nil)
    }
  }

  @Test("nor what it never read")
  func notUnread() async throws {
    try await WorkerBench().run { bench in
      let bob = bench.user(0)
      try await bench.anotherWrites(bob, named: "newer")
      // As if it had been written while this owner was reading.
      try await bench.adopt(0)
      #expect(try await bench.register(bob, named: "older").isTryAgain)
      #expect(try await bench.stored(bob) == "newer")
    }
  }

  @Test("a write that was taken without an answer is found, and counts")
  func takenWithoutAnswer() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      bench.bus.setFaults { faults in
        faults.onPut = { bucket, _ in bucket == "registrations" ? .unknown(stored: true) : nil }
      }
      #expect(try await bench.register(bob, named: "one").isRegistered)
      #expect(try await bench.stored(bob) == "one")
      #expect(try await bench.register(bob, named: "two").isRegistered)
      #expect(try await bench.stored(bob) == "two")
      // That nothing is there does not show that it was removed.
      #expect(try await bench.unregister(bob).isTryAgain)
      #expect(try await bench.stored(bob) == nil)
      bench.bus.setFaults { $0.onPut = nil }
      #expect(try await bench.untilTaken { try await bench.unregister(bob) } == .done)
      #expect(try await bench.register(bob, named: "three").isRegistered)
      #expect(try await bench.stored(bob) == "three")
    }
  }

  @Test("one that was not taken is tried again")
  func lostWithoutAnswer() async throws {
    try await WorkerBench().run { bench in
      try await bench.adopt(0)
      let bob = bench.user(0)
      bench.bus.setFaults { faults in
        faults.onPut = { bucket, _ in bucket == "registrations" ? .unknown(stored: false) : nil }
      }
      #expect(try await bench.register(bob, named: "one").isTryAgain)
      #expect(try await bench.stored(bob) == nil)
      bench.bus.setFaults { $0.onPut = nil }
      let reply = try await bench.untilTaken { try await bench.register(bob, named: "two") }
      #expect(reply.isRegistered)
    }
  }
}
