import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

extension WorkerBench {
  /// Registers bob's phone under this name; nil: removes it.
  @inline(never)
  fileprivate func write(_ name: String?) async throws -> Reply {
    let body: Command.Body =
      if let name { .register(RegistrationRequest(deviceName: name)) } else { .unregister("phone") }
    return try await edge.ask(body, from: 50, user(0), "phone", to: user(0))
  }

  /// Asks until it is answered otherwise than by "try again".
  fileprivate func writeUntilTaken(_ name: String?) async throws -> Reply {
    for _ in 0..<100 {
      let reply = try await write(name)
      if !reply.isTryAgain { return reply }
    }
    throw Timeout(what: "the store takes it")
  }

  private var key: String {
    let bob = user(0)
    return Subjects.registrationKey(shard: 0, app: bob.app, user: bob.user, device: "phone")
  }

  /// The name under which the store has the phone; nil: it has not.
  @inline(never)
  fileprivate func stored() async throws -> String? {
    guard let value = try await registrations.get(key)?.value else { return nil }
    return try ClusterCodec.registration(value).request.deviceName
  }

  /// Writes as another owner of the shard, of which this one knows nothing.
  @inline(never)
  fileprivate func anotherWrites(_ name: String) async throws {
    let registration = Registration(
      user: user(0), device: "phone", request: RegistrationRequest(deviceName: name),
      registeredAt: clock.now(), seenAt: clock.now())
    let result = await registrations.put(key, ClusterCodec.encode(registration), expecting: nil)
    guard case .appended = result else { throw Timeout(what: "stored by another: \(result)") }
  }

  fileprivate func setFault(_ fault: InProcessFaults.Append?) {
    bus.setFaults { $0.onPut = { bucket, _ in bucket == "registrations" ? fault : nil } }
  }
}

/// The rules of users go the same way.
@Suite("registrations on their way to the store")
struct WorkerRegistrationTests {
  @Test("a result that nothing waits for is a bug: it is counted, and the shard goes on")
  func resultsThatNothingWaitsFor() async throws {
    try await WorkerBench().serve { bench in
      bench.worker.inbox.offer(.registrationFailed(WorkerBench.term, token: 99))
      try await eventually("it is counted") { bench.metrics.internalFaults.value == 1 }
      #expect(try await bench.write("phone").isRegistered)
      #expect(bench.metrics.internalFaults.value == 1)
    }
  }

  @Test(
    "what a later owner wrote is neither written over nor removed: the device tries again",
    arguments: ["newest", nil])
  func notOverAnothers(name: String?) async throws {
    try await WorkerBench().serve { bench in
      #expect(try await bench.write("old").isRegistered)
      try await bench.anotherWrites("newer")
      #expect(try await bench.write(name).isTryAgain)
      #expect(try await bench.stored() == "newer")
      // It owns the shard after all, as the journal shows: then the next one counts.
      let reply = try await bench.writeUntilTaken(name)
      #expect(name == nil ? reply == .done : reply.isRegistered)
      #expect(try await bench.stored() == name)
    }
  }

  @Test("nor what it never read, as if it had been written meanwhile")
  func notUnread() async throws {
    try await WorkerBench().run { bench in
      try await bench.anotherWrites("newer")
      try await bench.adopt(0)
      #expect(try await bench.write("older").isTryAgain)
      #expect(try await bench.stored() == "newer")
    }
  }

  @Test("a write that was taken without an answer is found, and counts; one that was not, does not")
  func withoutAnswer() async throws {
    try await WorkerBench().serve { bench in
      bench.setFault(.unknown(stored: true))
      for name in ["one", "two"] {
        #expect(try await bench.write(name).isRegistered)
        #expect(try await bench.stored() == name)
      }
      // That nothing is there does not show that it was removed.
      #expect(try await bench.write(nil).isTryAgain)
      #expect(try await bench.stored() == nil)
      bench.setFault(nil)
      #expect(try await bench.writeUntilTaken(nil) == .done)
      bench.setFault(.unknown(stored: false))
      #expect(try await bench.write("three").isTryAgain)
      #expect(try await bench.stored() == nil)
      bench.setFault(nil)
      let reply = try await bench.writeUntilTaken("four")
      #expect(reply.isRegistered)
      #expect(try await bench.stored() == "four")
    }
  }
}
