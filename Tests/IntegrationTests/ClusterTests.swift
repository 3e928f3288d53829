import CallClient
import CallCore
import CallProcesses
import CallTelemetry
import CallWire
import Foundation
import Testing

/// Whole calls through real processes: devices, edges, nats-server, coordinators and their journals.
@Suite(.serialized) struct ClusterTests {
  @Test(arguments: DeviceCodec.allCases)
  func answeredOnOneOfThree(codec: DeviceCodec) async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "a1", codec: codec)
    let bobs = [
      try await TestDevice(cluster, user: "bob", "b1", edges: ["e1"], codec: codec),
      try await TestDevice(cluster, user: "bob", "b2", edges: ["e2"], codec: codec),
      try await TestDevice(cluster, user: "bob", "b3", edges: ["e1"], codec: codec),
    ]
    defer { for device in bobs + [alice] { device.stop() } }
    for device in bobs { try await device.device.register(RegistrationRequest()) }
    let call = CallID.random()
    let state = try await alice.device.place(
      PlaceRequest(call: call, description: "offer"), to: "bob")
    #expect(state.phase == .placed)
    for device in bobs { try await device.waitForInvite(call) }
    try await bobs[0].device.alerting(call)
    try await alice.wait("ringing") { if case .call(call, .ringing) = $0 { true } else { false } }
    async let first = bobs[1].device.answer(call, description: "sdp")
    async let second = bobs[2].device.answer(call, description: "sdp")
    let won = try await [first, second]
    #expect(won.count(where: { $0 }) == 1)
    try await alice.waitForAnswer(call)
    let winner = won[0] ? bobs[1] : bobs[2]
    let loser = won[0] ? bobs[2] : bobs[1]
    for device in [bobs[0], loser] {
      try await device.waitForStop(call, .answeredElsewhere)
      #expect(device.stops(call).first?.by?.device.text == winner.name)
    }
    try await alice.device.connected(call)
    try await winner.device.connected(call)
    try await alice.device.hangUp(call)
    try await winner.waitForStop(call, .hungUp)
    #expect(loser.stops(call).count == 1)

    let health = try await cluster.callctl("status", "--json")
    #expect(health.status == 0, "\(health.text)")
    let report = try await cluster.callctl("call", call.description, "--json")
    #expect(report.status == 0)
    #expect(report.text.contains("hungUp"))
    let user = try await cluster.callctl("user", "demo", "bob", "--json")
    for device in bobs { #expect(user.text.contains(device.name)) }
    for (name, direction, with) in [("bob", "called", "alice"), ("alice", "placed", "bob")] {
      let answer = try await cluster.callctl("user", "demo", name, "--json")
      let report = try JSONDecoder().decode(UserReport.self, from: Data(answer.text.utf8))
      #expect(report.calls?.map(\.call) == [call.description], "\(answer.text)")
      #expect(report.calls?.first?.direction == direction)
      #expect(report.calls?.first?.with == with)
      #expect(report.shardsMissing == 0)
    }
    // Operators are told more than devices.
    let answer = try await cluster.get("e1", "/healthz")
    #expect(answer.status == 200 && answer.body == "{}", "\(answer.body)")
    for path in ["/metrics", "/readyz"] {
      #expect(try await cluster.get("e1", path).status == 404)
      for node in ["e1", "c1"] { #expect(try await cluster.ask(node, path).status == 200) }
    }
  }

  /// Sixteen callees, so that both coordinators own some of the calls; four callers, since a device
  /// may place five at a time.
  private func ringSixteen(_ cluster: TestCluster, edges: [String] = ["e1", "e2"]) async throws
    -> (callers: [TestDevice], bobs: [TestDevice], calls: [CallID])
  {
    var callers: [TestDevice] = []
    for number in 0..<4 {
      callers.append(try await TestDevice(cluster, user: "alice\(number)", "a1", edges: edges))
    }
    var bobs: [TestDevice] = []
    var calls: [CallID] = []
    for number in 0..<16 {
      let device = try await TestDevice(cluster, user: "bob\(number)", "b\(number)", edges: edges)
      let call = CallID.random()
      try await callers[number / 4].device.place(
        PlaceRequest(call: call, ringTimeoutSeconds: 120), to: "bob\(number)")
      try await device.waitForInvite(call)
      bobs.append(device)
      calls.append(call)
    }
    return (callers, bobs, calls)
  }

  /// Every ringing call can still be answered, and ends when it is hung up.
  private func answerAll(_ callers: [TestDevice], _ bobs: [TestDevice], _ calls: [CallID])
    async throws
  {
    for (number, (device, call)) in zip(bobs, calls).enumerated() {
      let alice = callers[number / 4]
      #expect(device.stops(call).isEmpty)
      #expect(try await device.device.answer(call))
      try await alice.waitForAnswer(call)
      try await alice.device.hangUp(call)
      try await device.waitForStop(call, .hungUp)
    }
  }

  @Test func aCoordinatorThatLeavesLosesNoCall() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let (callers, bobs, calls) = try await ringSixteen(cluster)
    defer { for device in bobs + callers { device.stop() } }
    #expect(cluster.stop("c1") == 0, "\(cluster.log("c1"))")
    try await answerAll(callers, bobs, calls)
    let health = try await cluster.callctl("status", "--json")
    #expect(health.status == 0, "\(health.text)")
  }

  @Test func aCoordinatorThatJoinsLosesNoCall() async throws {
    let cluster = try await TestCluster.start(coordinators: 1)
    defer { cluster.stop() }
    let (callers, bobs, calls) = try await ringSixteen(cluster)
    defer { for device in bobs + callers { device.stop() } }
    try cluster.startCoordinator("c2")
    try await waitForShards(cluster, of: "c2")
    try await answerAll(callers, bobs, calls)
  }

  /// Waits until a coordinator is counted among the owners of shards, and every shard has one. Among
  /// the nodes it is while it starts and has none.
  private func waitForShards(_ cluster: TestCluster, of node: String) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    var last = ""
    while ContinuousClock.now < deadline {
      let output = try await cluster.callctl("status", "--json", "--once")
      last = output.text
      if output.status == 0, output.text.contains("\"\(node)\" :") { return }
    }
    throw TestCluster.Failure(description: "\(node) has no shards: \(last)")
  }

  @Test("R10: a coordinator is killed while it rings")
  func aCoordinatorThatIsKilledLosesNoCall() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let (callers, bobs, calls) = try await ringSixteen(cluster)
    defer { for device in bobs + callers { device.stop() } }
    cluster.kill("c1")
    try await answerAll(callers, bobs, calls)
  }

  @Test("R11: an edge is killed; its devices attach elsewhere and hear the present state")
  func anEdgeThatIsKilled() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let (callers, bobs, calls) = try await ringSixteen(cluster)
    defer { for device in bobs + callers { device.stop() } }
    cluster.kill("e1")
    for device in bobs + callers {
      try await device.wait("attached again", count: 2) {
        if case .attached = $0 { true } else { false }
      }
    }
    try await answerAll(callers, bobs, calls)
  }

  @Test func declinedByHTTPWithoutASession() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 1)
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "a1", edges: ["e1"])
    let bob = try await TestDevice(cluster, user: "bob", "b1", edges: ["e1"])
    defer { for device in [alice, bob] { device.stop() } }
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call), to: "bob")
    try await bob.waitForInvite(call)
    let token = try await cluster.run(
      TestCluster.program("callctl"),
      [
        "token", "--app", "demo", "--user", "bob", "--device", "b2", "--keys-file",
        cluster.folder + "/keys.json",
      ])
    let bearer = token.text.trimmingCharacters(in: .whitespacesAndNewlines)
    let answer = await HTTPProbe.send(
      "POST", "127.0.0.1", cluster.port("e1"), "/v1/calls/bob/\(call)/decline",
      headers: ["Authorization: Bearer \(bearer)", "Content-Type: application/json"], body: "{}")
    #expect(answer.status == 200, "\(answer.body)")
    try await alice.waitForStop(call, .declined)
    try await bob.waitForStop(call, .declined)
  }

  @Test func statusOfNoClusterIsUnreachable() async throws {
    let output = try await TestCluster.runAlone(
      "callctl", ["status", "--nats-url", "nats://127.0.0.1:1", "--once"])
    #expect(output.status == 2)
  }
}
