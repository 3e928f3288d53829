import CallClient
import CallCore
import CallProcesses
import CallTelemetry
import CallWire
import Foundation
import Testing

/// Whole calls through real processes: devices, edges, nats-server, coordinators and their journals.
@Suite(.serialized) struct ClusterTests {
  @Test func answeredOnOneOfThree() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let alice = try await cluster.device("alice", "a1", codec: .json)
    let bobs = [
      try await cluster.device("bob", "b1", edges: ["e1"]),
      try await cluster.device("bob", "b2", edges: ["e2"]),
      try await cluster.device("bob", "b3", edges: ["e1"], codec: .json),
    ]
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
    let (winner, loser) = won[0] ? (bobs[1], bobs[2]) : (bobs[2], bobs[1])
    for device in [bobs[0], loser] {
      try await device.waitForStop(call, .answeredElsewhere)
      #expect(device.stops(call).first?.by?.device.text == winner.name)
    }
    for device in [alice, winner] { try await device.device.connected(call) }
    try await alice.hangUp(call, with: winner)
    #expect(loser.stops(call).count == 1)

    _ = try await cluster.told("status", "--json")
    #expect(try await cluster.told("users").contains("bob"))
    #expect(try await cluster.told("call", call.description, "--json").contains("hungUp"))
    let user = try await cluster.told("user", "demo", "bob", "--json")
    for device in bobs { #expect(user.contains(device.name)) }
    for (name, direction, with) in [("bob", "called", "alice"), ("alice", "placed", "bob")] {
      let answer = try await cluster.told("user", "demo", name, "--json")
      let report = try JSONDecoder().decode(UserReport.self, from: Data(answer.utf8))
      #expect(report.calls?.map(\.call) == [call.description], "\(answer)")
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

  /// Sixteen calls that ring. So many, so that both coordinators own some of them; from four callers, since a device
  /// may place five at a time.
  private struct Ringing {
    var cluster: TestCluster
    var callers: [TestDevice] = []
    var bobs: [TestDevice] = []
    var calls: [CallID] = []
    var devices: [TestDevice] { bobs + callers }

    /// Every call can still be answered, and ends when it is hung up.
    func answerAll() async throws {
      for (number, (bob, call)) in zip(bobs, calls).enumerated() {
        #expect(bob.stops(call).isEmpty)
        try await bob.answer(call, of: callers[number / 4])
        try await callers[number / 4].hangUp(call, with: bob)
      }
    }
  }

  /// Lets something happen while sixteen calls ring, and then answers all of them.
  private func ringing(_ happen: (Ringing) async throws -> Void) async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    var ringing = Ringing(cluster: cluster)
    for number in 0..<4 {
      ringing.callers.append(try await cluster.device("alice\(number)", "a1"))
    }
    for number in 0..<16 {
      let bob = try await cluster.device("bob\(number)", "b\(number)")
      ringing.bobs.append(bob)
      ringing.calls.append(try await ringing.callers[number / 4].place(to: "bob\(number)"))
      try await bob.waitForInvite(ringing.calls[number])
    }
    try await happen(ringing)
    try await ringing.answerAll()
  }

  @Test("R10: a coordinator is killed while it rings")
  func aCoordinatorThatIsKilledLosesNoCall() async throws {
    try await ringing { $0.cluster.kill("c1") }
  }

  @Test("R11: an edge is killed; its devices attach elsewhere and hear the present state")
  func anEdgeThatIsKilled() async throws {
    try await ringing { ringing in
      ringing.cluster.kill("e1")
      for device in ringing.devices {
        try await device.wait("attached again", count: 2) {
          if case .attached = $0 { true } else { false }
        }
      }
    }
  }

  /// With tokens that `callctl` mints, for a device and for the app's server; at an edge with settings for browsers and
  /// balancers.
  @Test func declinedByHTTPWithoutASession() async throws {
    let settings = #"{"allowedOrigins": ["https://app.example"], "keepAliveTimeout": "1s"}"#
    let cluster = try await TestCluster.start(coordinators: 1, edges: 1, settings: settings)
    defer { cluster.stop() }
    let alice = try await cluster.device("alice", "a1", edges: ["e1"])
    let bob = try await cluster.device("bob", "b1", edges: ["e1"])
    func mint(_ words: String...) async throws -> TestCluster.Output {
      try await TestCluster.runAlone(
        "callctl",
        ["token", "--app", "demo", "--keys-file", cluster.folder + "/keys.json"] + words)
    }
    func ask(_ method: String, _ path: String, _ token: TestCluster.Output) async -> Int32 {
      let bearer = token.text.trimmingCharacters(in: .whitespacesAndNewlines)
      return await HTTPProbe.send(
        method, "127.0.0.1", cluster.port("e1"), path,
        headers: ["Authorization: Bearer \(bearer)", "Content-Type: application/json"],
        body: method == "GET" ? "" : "{}"
      ).status
    }
    let device = try await mint("--user", "bob", "--device", "b2")
    let server = try await mint("--server", "--lifetime", "1m")
    #expect(try await mint("--server", "--user", "bob").status != 0)
    #expect(await ask("GET", "/v1/app/users/bob", server) == 200)
    #expect(await ask("GET", "/v1/app/users/bob", device) == 403)

    let call = try await alice.place(to: "bob")
    try await bob.waitForInvite(call)
    #expect(await ask("POST", "/v1/calls/bob/\(call)/decline", device) == 200)
    for device in [alice, bob] { try await device.waitForStop(call, .declined) }
    await originsAndIdleConnections(
      cluster, device.text.trimmingCharacters(in: .whitespacesAndNewlines))
  }

  /// The list of origins guards pages, and idle connections are closed in time.
  @inline(never)
  private func originsAndIdleConnections(_ cluster: TestCluster, _ token: String) async {
    let cases: [(origin: String, token: String?, status: Int32)] = [
      ("https://app.example", nil, 101), ("https://evil.example", nil, 403),
      // A React Native app's library adds an origin of its own.
      ("https://evil.example", token, 101), ("https://evil.example", "no token", 401),
    ]
    for (origin, token, status) in cases {
      let answer = await HTTPProbe.send(
        "GET", "127.0.0.1", cluster.port("e1"), "/v1/connect", connection: "Upgrade",
        headers: [
          "Origin: \(origin)", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
          "Sec-WebSocket-Protocol: callmesh.v1.json",
        ] + (token.map { ["Authorization: Bearer \($0)"] } ?? []))
      #expect(answer.status == status, "\(origin)")
    }
    let answer = await HTTPProbe.send(
      "GET", "127.0.0.1", cluster.port("e1"), "/healthz", connection: "keep-alive", seconds: 60)
    #expect(answer.status == 200, "the edge closes the connection")
  }

  @Test func statusOfNoClusterIsUnreachable() async throws {
    let output = try await TestCluster.runAlone(
      "callctl", ["status", "--nats-url", "nats://127.0.0.1:1", "--once"])
    #expect(output.status == 2)
  }
}
