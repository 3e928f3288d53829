import CallClient
import CallCore
import CallWire
import TestSupport
import Testing

/// R20: planned change, on real processes and with `callctl drain`.
@Suite(.serialized) struct RollingRestartTests {
  @Test(
    "R20: all nodes are restarted one after the other while calls ring",
    .enabled(if: Proof.isOn, "only make prove runs it"), .timeLimit(.minutes(5)))
  func rollingRestart() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await cluster.device("alice", "a1")
    var bobs: [TestDevice] = []
    var calls: [CallID] = []
    for number in 0..<5 {
      bobs.append(try await cluster.device("bob\(number)", "b\(number)"))
      let call = CallID.random()
      try await alice.device.place(
        PlaceRequest(call: call, ringTimeoutSeconds: 180), to: "bob\(number)")
      try await bobs[number].waitForInvite(call)
      try await bobs[number].device.alerting(call)
      calls.append(call)
    }
    for node in ["e1", "e2", "c1", "c2"] {
      let drained = try await cluster.callctl("drain", node, "--wait", "--json", "--over", "3")
      #expect(drained.status == 0, "\(node): \(drained.text) \(cluster.log(node))")
      #expect(drained.text.contains(#""state" : "drained""#))
      let status = try await cluster.callctl("status", "--once")
      #expect(status.text.contains("\(node) is drained."))
      #expect(cluster.stop(node) == 0, "\(cluster.log(node))")
      if node.hasPrefix("e") {
        try cluster.startEdge(node)
        try await cluster.waitUntilReady(node)
      } else {
        try cluster.startCoordinator(node)
        try await cluster.waitForShards(of: node)
      }
    }
    for (bob, call) in zip(bobs, calls) {
      #expect(bob.stops(call).isEmpty, "it rings on")
      #expect(!bob.wasDetached, "it was attached all the time")
      try await bob.answer(call, of: alice)
      try await alice.hangUp(call, with: bob)
    }
    #expect(!alice.wasDetached)
    _ = try await cluster.told("status", "--json")
  }

  @Test(.timeLimit(.minutes(2)))
  func aCallIsPlacedElsewhereWhileTheEdgeDrains() async throws {
    let cluster = try await TestCluster.start(coordinators: 1)
    defer { cluster.stop() }
    let alice = try await cluster.device("alice", "a1")
    let bob = try await cluster.device("bob", "b1")
    #expect(try await cluster.callctl("drain", "c1").status == 1, "it is the last one")
    #expect(try await cluster.callctl("drain", "e1", "--over", "60").status == 0)
    let call = CallID.random()
    #expect(try await alice.device.place(PlaceRequest(call: call), to: "bob").phase == .placed)
    try await bob.waitForInvite(call)
    #expect(try await cluster.callctl("resume", "e1").status == 0)
    try await cluster.waitUntilReady("e1")
  }
}
