import CallClient
import CallCore
import CallTestKit
import Foundation
import Testing

/// A webhook that learns of a device, is busy and then is gone, in a cluster of real processes. Those of calls:
/// `AfterTheCallTests`.
@Suite(.timeLimit(.minutes(4)), .serialized)
struct WebhookTests {
  @Test("an app learns of a device that left; Retry-After is heeded; 410 pauses the URL, as shown")
  func theWebhookIsGone() async throws {
    let receiver = WebhookReceiver()
    let server = try await SimulatedHTTPServer.start(authority: nil) { receiver.take($0) }
    let cluster = try await TestCluster.start(coordinators: 0, edges: 0, waits: false)
    defer { cluster.stop() }
    try cluster.changeApp {
      $0["webhooks"] = [["url": "\(server.origin)/events", "secrets": [WebhookReceiver.secret]]]
    }
    try cluster.startCoordinator("c1")
    try cluster.startEdge("e1")
    try cluster.startGateway("p1", providers: nil)
    try await cluster.waitUntilReady("e1")
    let alice = try await cluster.device("alice", "a1", edges: ["e1"])
    let bob = try await cluster.device("bob", "b1", edges: ["e1"])
    let token = PushToken(provider: .fcm, environment: "", topic: "p", token: "t")
    try await bob.device.register(RegistrationRequest(alertToken: token))
    try await bob.device.unregister()
    bob.stop()
    try await eventually("the app learns that the device left") {
      receiver.gone() == [["bob", "b1", "unregistered", nil, nil]]
    }
    let before = receiver.attempts.count

    func place(_ number: Int) async throws -> CallID {
      let call = try await alice.place(to: "nobody-\(number)")
      try await alice.waitForStop(call, .unreachable)
      return call
    }
    // Longer than the pause after a first failure without a demand.
    receiver.isBusyOnce(forSeconds: 3)
    let first = try await place(1)
    try await eventually("the app has all three events") {
      receiver.events(first) == ["call.placed", "call.ended", "call.missed"]
    }
    let attempts = Array(receiver.attempts.dropFirst(before))
    try #require(attempts.count == 4, "\(attempts)")
    #expect(attempts[0].id == attempts[1].id, "the later events wait")
    #expect(attempts[1].seconds >= attempts[0].seconds + 3)
    #expect(try await !cluster.told("status", "--once").contains("answers 410"))

    receiver.isGone()
    _ = try await place(2)
    try await eventually("operators learn it") {
      // It ends with 1: the cluster counts as degraded.
      try await cluster.callctl("status", "--once").text
        .contains("answers 410, so it gets one event an")
    }
    let rows = try await cluster.told("webhooks", "--json").filter { !$0.isWhitespace }
    #expect(rows.contains(#""isGone":true"#) && rows.contains(#""failures":2"#), "\(rows)")
    #expect(try await cluster.told("webhooks").contains("status 410: the webhook is gone"))
    #expect(try await metric("callmesh_webhook_gone", cluster) == 1)
    // Events that come meanwhile wait, and are not tried.
    _ = try await place(3)
    try await eventually("the events wait") {
      try await metric("callmesh_webhook_open", cluster) == 6
    }
    #expect(receiver.attempts.count == before + 5 && receiver.unsigned == 0)
    #expect(try await metric("callmesh_webhook_failures_total", cluster) == 2)
    #expect(try await metric("callmesh_webhook_dead_letters_total", cluster) == 0)
    await server.stop()
  }

  /// The gateway's, with whatever labels.
  private func metric(_ name: String, _ cluster: TestCluster) async throws -> Double? {
    try await cluster.ask("p1", "/metrics").body.split(separator: "\n")
      .first { $0.hasPrefix(name + "{") }?.split(separator: " ").last.flatMap { Double($0) }
  }
}
