import CallClient
import CallCore
import CallWire
import TestSupport
import Testing

/// R20: planned change, on real processes and with `callctl drain`.
@Suite(.serialized) struct RollingRestartTests {
  private func isDetached(_ event: ClientEvent) -> Bool {
    if case .detached = event { true } else { false }
  }

  private func ring(_ cluster: TestCluster, _ count: Int) async throws
    -> (caller: TestDevice, bobs: [TestDevice], calls: [CallID])
  {
    let alice = try await TestDevice(cluster, user: "alice", "a1")
    var bobs: [TestDevice] = []
    var calls: [CallID] = []
    for number in 0..<count {
      let bob = try await TestDevice(cluster, user: "bob\(number)", "b\(number)")
      let call = CallID.random()
      try await alice.device.place(
        PlaceRequest(call: call, ringTimeoutSeconds: 180), to: "bob\(number)")
      try await bob.waitForInvite(call)
      try await bob.device.alerting(call)
      bobs.append(bob)
      calls.append(call)
    }
    return (alice, bobs, calls)
  }

  @Test(
    "R20: all nodes are restarted one after the other while calls ring",
    .enabled(if: Proof.isOn, "only make prove runs it"), .timeLimit(.minutes(5)))
  func rollingRestart() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let (alice, bobs, calls) = try await ring(cluster, 5)
    defer { for device in bobs + [alice] { device.stop() } }
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
        try await waitUntilServing(cluster, node)
      }
    }
    for (bob, call) in zip(bobs, calls) {
      #expect(bob.stops(call).isEmpty, "it rings on")
      #expect(!bob.heard.contains(where: isDetached), "it was attached all the time")
      #expect(try await bob.device.answer(call))
      try await alice.waitForAnswer(call)
      try await alice.device.hangUp(call)
      try await bob.waitForStop(call, .hungUp)
    }
    #expect(!alice.heard.contains(where: isDetached))
    let health = try await cluster.callctl("status", "--json")
    #expect(health.status == 0, "\(health.text)")
  }

  private func waitUntilServing(_ cluster: TestCluster, _ node: String) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while ContinuousClock.now < deadline {
      let output = try await cluster.callctl("status", "--json", "--once")
      if output.status == 0, output.text.contains("\"\(node)\" :") { return }
    }
    throw TestCluster.Failure(description: "\(node) does not serve: \(cluster.log(node))")
  }

  @Test(.timeLimit(.minutes(2)))
  func aCallIsPlacedElsewhereWhileTheEdgeDrains() async throws {
    let cluster = try await TestCluster.start(coordinators: 1)
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "a1")
    let bob = try await TestDevice(cluster, user: "bob", "b1")
    defer { for device in [alice, bob] { device.stop() } }
    #expect(try await cluster.callctl("drain", "e1", "--over", "60").status == 0)
    let call = CallID.random()
    #expect(
      try await alice.device.place(PlaceRequest(call: call), to: "bob").phase == .placed)
    try await bob.waitForInvite(call)
    #expect(try await cluster.callctl("resume", "e1").status == 0)
    try await cluster.waitUntilReady("e1")
  }

  @Test func theLastOfItsKindIsNotDrained() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 1)
    defer { cluster.stop() }
    for node in ["c1", "e1", "nobody"] {
      #expect(try await cluster.callctl("drain", node).status == 1)
    }
    #expect(try await cluster.callctl("drain", "e1", "--wait", "--force").status == 0)
    #expect(try await cluster.callctl("resume", "e1").status == 0)
    try await cluster.waitUntilReady("e1")
  }
}
