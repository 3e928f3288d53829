import CallClient
import CallCore
import CallWire
import Testing

/// A network that falls apart, on hosts of our own: a namespace each, with nats-server, coordinator
/// and edge.
@Suite(
  .serialized,
  .enabled(
    if: HostNetwork.isPossible,
    "partitions need root, iproute2 and a kernel that allows namespaces, veth and bridges"))
struct PartitionTests {
  /// The host that is cut off had a third of the shards, of the callers and of the ringing devices. Its devices still
  /// reach its edge, which can no longer help them: it sends them to the others.
  @Test func aHostThatIsCutOffTakesNothingWithIt() async throws {
    let cluster = try await HostCluster.start(hosts: 3)
    defer { cluster.stop() }
    var alices: [TestDevice] = []
    var pairs: [Pair] = []
    for host in 0..<3 {
      alices.append(
        try await TestDevice(
          keys: cluster.keys, edges: cluster.edges(from: host), user: "alice\(host)", "a"))
    }
    for number in 0..<12 {
      let bob = try await TestDevice(
        keys: cluster.keys, edges: cluster.edges(from: number % 3), user: "bob\(number)", "b")
      try await bob.device.register(RegistrationRequest())
      // Callers and callees of every pair of hosts.
      let call = try await alices[number / 4].place(to: "bob\(number)")
      try await bob.waitForInvite(call)
      pairs.append(Pair(number: number, alice: alices[number / 4], bob: bob, call: call))
    }
    defer { for device in alices + pairs.map(\.bob) { device.stop() } }

    try cluster.network.cut(0)
    do {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for pair in pairs { group.addTask { try await pair.answer() } }
        try await group.waitForAll()
      }
    } catch {
      Issue.record("\(error)\n\(cluster.logs)")
      return
    }
    try cluster.network.heal(0)
    for pair in pairs { try await pair.hangUp() }
    try await cluster.waitUntilReady(0)
  }

  private struct Pair: Sendable {
    var number: Int
    var alice: TestDevice
    var bob: TestDevice
    var call: CallID

    func answer() async throws {
      do {
        #expect(bob.stops(call).isEmpty)
        #expect(try await retrying { try await bob.device.answer(call) })
        try await alice.waitForAnswer(call)
        // Else the calls that were answered first would fail before the last one is.
        for device in [bob, alice] {
          try await retrying { try await device.device.connected(call) }
        }
      } catch {
        throw TestCluster.Failure(description: "call \(number) of host \(number % 3): \(error)")
      }
    }

    func hangUp() async throws {
      try await retrying { try await alice.device.hangUp(call) }
      try await bob.waitForStop(call, .hungUp)
      #expect(Set(bob.stops(call).map(\.reason)) == [.hungUp])
    }
  }
}
