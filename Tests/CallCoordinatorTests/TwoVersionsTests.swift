import CallBus
import CallCoordinator
import CallCore
import CallWire
import Testing

/// A node of this version beside one of an earlier version, that reads no more than format 1.
@Suite("two versions side by side") struct TwoVersionsTests {
  static let bob = UserKey.user("bob")

  @Test func nothingIsWrittenThatOneOfThemCannotRead() async throws {
    try await ClusterBench.run(["new"], shards: 1) { bench in try await upgrade(bench) }
  }

  private func upgrade(_ bench: ClusterBench) async throws {
    let token = PushToken(
      provider: .apns, environment: "sandbox", topic: "org.example.voip", token: "t",
      fingerprint: "fpt")
    let reply = try await bench.edge.ask(
      .register(RegistrationRequest(voipToken: token)), from: 50, Self.bob, "phone", to: Self.bob)
    #expect(reply.isRegistered)
    try await place(0, bench)
    #expect(try await formats(0, bench).contains(2), "alone it wakes who sleeps")

    say(.leaving, bench)
    var last = 0
    try await eventually("no device is woken while one reads format 1 only") {
      last += 1
      try await place(last, bench)
      return try await formats(last, bench) == [1]
    }
    // And the calls of the time before go on.
    let cancelled = try await bench.edge.ask(
      .call(ClusterBench.call(0), .cancel), from: ClusterBench.callerSession(0),
      ClusterBench.caller(0), "phone", to: Self.bob)
    #expect(cancelled.call?.reason == .cancelled)

    say(.gone, bench)
    try await eventually("it is woken again when that one has gone") {
      last += 1
      try await place(last, bench)
      return try await formats(last, bench).contains(2)
    }
  }

  private func place(_ index: Int, _ bench: ClusterBench) async throws {
    let request = PlaceRequest(call: ClusterBench.call(index), ringTimeoutSeconds: 180)
    _ = try await bench.edge.ask(
      .place(request), from: ClusterBench.callerSession(index), ClusterBench.caller(index), "phone",
      to: Self.bob)
  }

  /// In which formats the journal has what became of a call. (That a device is woken is of format 2.)
  private func formats(_ index: Int, _ bench: ClusterBench) async throws -> Set<Int> {
    var found: Set<Int> = []
    for stored in try await bench.journal.records(shard: 0, from: 1, limit: 10_000) {
      for entry in try ClusterCodec.journalRecord(stored.bytes).entries
      where entry.call == ClusterBench.call(index) {
        if case .pushed = entry.change { found.insert(2) } else { found.insert(1) }
      }
    }
    return found
  }

  private func say(_ state: NodeState, _ bench: ClusterBench) {
    let heartbeat = Heartbeat(
      node: "old", role: .coordinator, incarnation: 4711, state: state, version: "0.0.9",
      shardCount: UInt32(bench.shards), reads: 1)
    bench.bus.publish(bench.subjects.heartbeats, ClusterCodec.encode(heartbeat))
  }
}
