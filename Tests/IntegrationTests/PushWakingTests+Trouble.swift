import CallClient
import CallCore
import CallTestKit
import PushSimulators
import Testing

/// Providers that are unavailable for a moment while a call rings.
extension PushWakingTests {
  private struct Phones {
    var iphone: PushToken
    var android: PushToken
  }

  /// Asleep: an iPhone, an Android phone, and two browsers with endpoints as long as Edge has on Windows, and as long as
  /// any may be.
  private func registerPhones(_ stage: PushCluster) async throws -> Phones {
    let phones = Phones(iphone: stage.voipToken(), android: stage.fcmToken())
    try await stage.register("bob", "iphone", voip: phones.iphone)
    try await stage.register("bob", "android", alert: phones.android)
    try await stage.register("bob", "edge", alert: stage.webToken(endpointBytes: 900))
    try await stage.register("bob", "longest", alert: stage.webToken(endpointBytes: 2048))
    return phones
  }

  @Test("APNs, FCM and a push service answer 503 twice each: one call rings all devices")
  func unavailableTwice() async throws {
    try await PushCluster.run { stage in
      let phones = try await registerPhones(stage)
      stage.apns.play(APNsScript([.init(.answer(.serviceUnavailable), times: 2)]))
      stage.fcm.sendScript.add(
        FCMSimulator.failure(503, "UNAVAILABLE", fcm: "UNAVAILABLE"), times: 2)
      stage.web.script.add(.answer(status: 503), times: 2)
      let alice = try await stage.attached("alice", "a1")
      let call = CallID.random()
      try await alice.device.place(PlaceRequest(call: call, ringTimeoutSeconds: 120), to: "bob")
      try await eventually("all are pushed") {
        try stage.newsByAPNs(phones.iphone).has(.ring, of: call)
          && stage.newsByFCM(phones.android).has(.ring, of: call)
          && stage.newsByWebPush(0).has(.ring, of: call)
          && stage.newsByWebPush(1).has(.ring, of: call)
      }
      #expect(stage.apns.report.responses["503 ServiceUnavailable"] == 2)
      let iphone = try await stage.attached("bob", "iphone", wokenFor: call)
      defer { for device in [alice, iphone] { device.stop() } }
      try await iphone.waitForInvite(call)
      try await iphone.device.alerting(call)
      try await alice.device.cancel(call)
      try await alice.waitForStop(call, .cancelled)
      try await androidHearsItCalmly(stage, phones)
      #expect(stage.violations == [])
    }
  }

  /// Android lowers the priority of apps that show nothing for messages of high priority.
  private func androidHearsItCalmly(_ stage: PushCluster, _ phones: Phones) async throws {
    try await eventually("Android hears that it missed the call") {
      try stage.newsByFCM(phones.android).purposes == [.ring, .ended, .missedNotice]
    }
    #expect(
      try stage.prioritiesByFCM(phones.android)
        == [.ring: "high", .ended: "high", .missedNotice: "normal"])
  }
}
