import CallClient
import CallCore
import CallTestKit
import Foundation
import PushSimulators
import Testing

/// Webhooks of devices in a cluster of real processes, signed. Those of calls: `AfterTheCallTests`.
@Suite(.timeLimit(.minutes(4)), .serialized)
struct WebhookTests {
  private func add(_ url: String, to cluster: TestCluster) throws {
    try cluster.changeApp {
      $0["webhooks"] = [["url": url, "secrets": [WebhookReceiver.secret]]]
    }
  }

  @Test func anAppLearnsThatATokenIsGone() async throws {
    let receiver = WebhookReceiver()
    let server = try await SimulatedHTTPServer.start(authority: nil) { receiver.take($0) }
    try await PushCluster.run { stage in
      try add("\(server.origin)/events", to: stage.cluster)
      // The gateway of the cluster has no keys, and so no webhooks.
      try stage.cluster.startGateway("p2", providers: nil)
      try await eventually("p2 serves") {
        let output = try await stage.cluster.callctl("status", "--once")
        return output.text.split(separator: "\n").contains {
          $0.hasPrefix("p2 ") && $0.contains(" serving ")
        }
      }
      let alice = try await stage.attached("alice", "a1")
      defer { alice.stop() }
      var number = 0
      try await eventually("the edge reads the file") {
        let call = CallID.random()
        number += 1
        try await alice.device.place(PlaceRequest(call: call), to: "nobody-\(number)")
        try await Task.sleep(for: .milliseconds(500))
        return !receiver.events(call).isEmpty
      }
      let token = stage.voipToken()
      try await stage.register("bob", "phone", voip: token)
      let inAnHour = Int64(Date().timeIntervalSince1970 * 1e6) + 3_600_000_000
      stage.apns.unregister(token.token, at: Timestamp(microseconds: inAnHour))
      let call = CallID.random()
      try await alice.device.place(PlaceRequest(call: call), to: "bob")
      try await alice.waitForStop(call, .unreachable)
      try await eventually("the app learns it") {
        receiver.gone() == [["bob", "phone", "refused", "apns", "voip"]]
      }
      try await aPhoneAndABrowserAreGone(stage, alice, receiver)
      let moved = stage.voipToken()
      try await stage.register("bob", "pad", voip: moved)
      try await stage.register("carol", "pad", voip: moved)
      try await stage.unregister("bob", "phone")
      try await eventually("a token that somebody else has, and a device that left") {
        receiver.gone().isSuperset(of: [
          ["bob", "pad", "taken", "apns", "voip"], ["bob", "phone", "unregistered", nil, nil],
        ])
      }
      #expect(receiver.unsigned == 0)
    }
    await server.stop()
  }

  /// FCM and a push service say for good that they do not know a device.
  @inline(never)
  private func aPhoneAndABrowserAreGone(
    _ stage: PushCluster, _ alice: TestDevice, _ receiver: WebhookReceiver
  ) async throws {
    let android = stage.fcmToken()
    try await stage.register("dora", "android", alert: android)
    try await stage.register("dora", "browser", alert: stage.webToken())
    func hasTokens() async throws -> Bool {
      try await stage.cluster.callctl("user", "demo", "dora", "--json").text.contains(#""trust""#)
    }
    #expect(try await hasTokens())
    stage.fcm.refuse(device: android.token, with: "UNREGISTERED")
    stage.web.unsubscribe(0, status: 410)
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call), to: "dora")
    try await alice.waitForStop(call, .unreachable)
    try await eventually("the app learns of both") {
      receiver.gone().isSuperset(of: [
        ["dora", "android", "refused", "fcm", "alert"],
        ["dora", "browser", "refused", "webPush", "alert"],
      ])
    }
    try await eventually("neither has a token any more") { try await !hasTokens() }
  }

  @Test("Retry-After as a date is heeded; 410 pauses the URL, and operators learn it")
  func demandsAreHeeded() async throws {
    let receiver = WebhookReceiver()
    let server = try await SimulatedHTTPServer.start(authority: nil) { receiver.take($0) }
    let cluster = try await TestCluster.start(coordinators: 0, edges: 0, waits: false)
    defer { cluster.stop() }
    try add("\(server.origin)/events", to: cluster)
    try cluster.startCoordinator("c1")
    try cluster.startEdge("e1")
    try cluster.startGateway("p1", providers: nil)
    try await cluster.waitUntilReady("e1")
    let alice = try await TestDevice(cluster, user: "alice", "a1", edges: ["e1"])
    defer { alice.stop() }
    func place(_ number: Int) async throws -> CallID {
      let call = CallID.random()
      try await alice.device.place(PlaceRequest(call: call), to: "nobody-\(number)")
      try await alice.waitForStop(call, .unreachable)
      return call
    }

    // Longer than the pause after a first failure without a demand.
    receiver.isBusyOnce(forSeconds: 3)
    let first = try await place(1)
    try await eventually("the app has all three events") {
      receiver.events(first) == ["call.placed", "call.ended", "call.missed"]
    }
    let attempts = receiver.attempts
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
    #expect(receiver.attempts.count == 5 && receiver.unsigned == 0)
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
