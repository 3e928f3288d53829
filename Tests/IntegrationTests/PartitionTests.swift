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
  /// The host that is cut off had a third of the shards, of the callers and of the ringing devices.
  /// Its devices still reach its edge, which cannot help them any more: it sends them to the others.
  @Test func aHostThatIsCutOffTakesNothingWithIt() async throws {
    let cluster = try await HostCluster.start(hosts: 3)
    defer { cluster.stop() }
    var alices: [TestDevice] = []
    var bobs: [TestDevice] = []
    var calls: [CallID] = []
    for host in 0..<3 {
      alices.append(
        try await TestDevice(
          keys: cluster.keys, edges: cluster.edges(from: host), user: "alice\(host)", "a"))
    }
    for number in 0..<12 {
      let bob = try await TestDevice(
        keys: cluster.keys, edges: cluster.edges(from: number % 3), user: "bob\(number)", "b")
      try await bob.device.register(RegistrationRequest())
      let call = CallID.random()
      // Callers and callees of every pair of hosts.
      try await alices[number / 4].device.place(
        PlaceRequest(call: call, ringTimeoutSeconds: 120), to: "bob\(number)")
      try await bob.waitForInvite(call)
      bobs.append(bob)
      calls.append(call)
    }
    defer { for device in alices + bobs { device.stop() } }

    try cluster.network.cut(0)
    for (number, call) in calls.enumerated() {
      do {
        #expect(bobs[number].stops(call).isEmpty)
        #expect(try await retrying { try await bobs[number].device.answer(call) })
        try await alices[number / 4].waitForAnswer(call)
        // Else the calls that were answered first would fail before the last one is.
        for device in [bobs[number], alices[number / 4]] {
          try await retrying { try await device.device.connected(call) }
        }
      } catch {
        Issue.record("call \(number) of host \(number % 3): \(error)\n\(cluster.logs)")
        return
      }
    }
    try cluster.network.heal(0)
    for (number, call) in calls.enumerated() {
      try await retrying { try await alices[number / 4].device.hangUp(call) }
      try await bobs[number].waitForStop(call, .hungUp)
      #expect(Set(bobs[number].stops(call).map(\.reason)) == [.hungUp])
    }
    try await cluster.waitUntilReady(0)
  }
}
