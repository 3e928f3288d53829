import CallAuth
import CallClient
import CallCore
import CallProcesses
import CallWire
import Foundation
import Testing

/// Calls that an app's server places between two users, on real processes whose coordinators die at each stage.
@Suite(.timeLimit(.minutes(4)), .serialized)
struct AppPlacingTests {
  private static func place(_ call: CallID, _ cluster: TestCluster) async throws -> AppCall? {
    var body = HTTPBodies.PlaceCall(call: call, from: "bob", to: "cy")
    body.callerName = "Dr. Cy"
    let now = Int64(Date().timeIntervalSince1970)
    let token = try cluster.keys.mintServerToken(app: "demo", lifetimeSeconds: 600, now: now)
    let deadline = ContinuousClock.now + .seconds(60)
    while true {
      let answer = await HTTPProbe.send(
        "POST", "127.0.0.1", cluster.port("e1"), "/v1/app/calls",
        headers: ["Authorization: Bearer \(token)"],
        body: String(decoding: HTTPBodies.encode(body), as: UTF8.self), seconds: 30)
      // 503: a shard has no owner just now.
      if answer.status == 200 { return HTTPBodies.readAppCall(Array(answer.body.utf8)) }
      try #require(answer.status == 503 || answer.status == 0, "\(answer.body)")
      try #require(ContinuousClock.now < deadline)
      try await Task.sleep(for: .milliseconds(100))
    }
  }

  private static func restartCoordinators(_ cluster: TestCluster) throws {
    for name in ["c1", "c2"] { cluster.kill(name) }
    for name in ["c1", "c2"] { try cluster.startCoordinator(name) }
  }

  @Test(arguments: DeviceCodec.allCases) func bothTalk(codec: DeviceCodec) async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let bob = try await TestDevice(cluster, user: "bob", "b1", edges: ["e1"], codec: codec)
    let second = try await TestDevice(cluster, user: "bob", "b2", edges: ["e2"], codec: codec)
    let cy = try await TestDevice(cluster, user: "cy", "c1", edges: ["e2"], codec: codec)
    let all = [bob, second, cy]
    defer { for device in all { device.stop() } }
    for device in all { try await device.device.register(RegistrationRequest()) }
    let call = CallID.random()
    let placed = try await Self.place(call, cluster)
    #expect(placed?.caller == Party(user: "cy", device: "", name: "Dr. Cy"))
    try await bob.waitForInvite(call)
    try await second.waitForInvite(call)
    try Self.restartCoordinators(cluster)
    #expect(try await Self.place(call, cluster)?.placedAt == placed?.placedAt, "repeated")

    #expect(try await retrying { try await bob.device.answer(call) })
    try await second.waitForStop(call, .answeredElsewhere)
    try await cy.wait("an invite that names who waits") {
      guard case .call(call, .invited(let invite)) = $0 else { return false }
      return invite.caller.device == "b1" && invite.description.isEmpty
    }
    try Self.restartCoordinators(cluster)

    #expect(try await retrying { try await cy.device.answer(call, description: "offer") })
    try await bob.wait("cy's offer") {
      guard case .call(call, .moved(let moved)) = $0 else { return false }
      return moved.to.device == "c1" && moved.description == "offer"
    }
    try await retrying { try await bob.device.signal(call, .description, "answer") }
    try await cy.wait("bob's answer") {
      if case .call(call, .signal(let signal)) = $0 { signal.body == "answer" } else { false }
    }
    try Self.restartCoordinators(cluster)
    try await retrying { try await cy.device.hangUp(call) }
    try await bob.waitForStop(call, .hungUp)
  }

  @Test func theSecondUserDeclines() async throws {
    let cluster = try await TestCluster.start()
    defer { cluster.stop() }
    let bob = try await TestDevice(cluster, user: "bob", "b1", edges: ["e1"])
    let cy = try await TestDevice(cluster, user: "cy", "c1", edges: ["e2"])
    defer { for device in [bob, cy] { device.stop() } }
    let call = CallID.random()
    #expect(try await Self.place(call, cluster)?.state.phase == .placed)
    try await bob.waitForInvite(call)
    #expect(try await bob.device.answer(call))
    try await cy.waitForInvite(call)
    try await cy.device.decline(call)
    try await bob.wait("why nobody came") {
      guard case .call(call, .transfer(let news)) = $0 else { return false }
      return news.reason == .declined && news.to == "cy"
    }
    try await bob.waitForStop(call, .hungUp)
  }
}
