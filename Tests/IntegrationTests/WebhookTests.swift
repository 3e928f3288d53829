import CallClient
import CallCore
import CallTestKit
import Foundation
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
}
