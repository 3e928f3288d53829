import CallBus
import CallCore
import CallPush
import CallTestKit
import CallWire
import Crypto
import Foundation
import PushSimulators
import Testing

/// A sender and a push service or two, on one clock.
final class WebPushStage: Sendable {
  let hand = HandClock()
  let authority: LoopbackAuthority
  let keyFile: String
  let services: [WebPushSimulator]
  let sender: WebPushSender

  init(services count: Int = 1, limits: SenderLimits? = nil) async throws {
    authority = try LoopbackAuthority()
    keyFile = NSTemporaryDirectory() + "/callmesh-vapid-\(UUID().uuidString).pem"
    let key = P256.Signing.PrivateKey()
    try Data(key.pemRepresentation.utf8).write(to: URL(filePath: keyFile))
    let hand = hand
    var services: [WebPushSimulator] = []
    var configuration = WebPushConfiguration(
      name: "web", keyFile: keyFile, subject: "mailto:push@example.com")
    for _ in 0..<count {
      let service = try await WebPushSimulator.start(
        authority: authority,
        applicationServerKey: Base64URL.text(Array(key.publicKey.x963Representation))
      ) { hand.nowSeconds }
      services.append(service)
      configuration.furtherHosts.append("localhost:\(service.port)")
    }
    self.services = services
    configuration.caFile = authority.caFile
    configuration.allowsPrivateAddresses = true
    if let limits { configuration.limits = limits }
    sender = try WebPushSender(configuration, environment: hand.environment())
  }

  var service: WebPushSimulator { services[0] }
  var now: Timestamp { hand.clock.now() }

  func message(
    _ subscription: String, seconds: Int64 = 30, purpose: PushPurpose = .ring,
    payload: String = #"{"call":"c1"}"#, collapseKey: String = ""
  ) -> PushMessage {
    .test(
      .webPush, token: subscription, purpose: purpose, payload: payload,
      deadline: now + .seconds(seconds), collapseKey: collapseKey)
  }

  func send(_ message: PushMessage) async -> PushOutcome { await sender.send(message) }

  func end() async {
    await sender.close()
    for service in services {
      await service.stop()
      #expect(service.violations == [])
    }
    try? FileManager.default.removeItem(atPath: keyFile)
  }
}

let quickWebPushLimits: SenderLimits = {
  var limits = SenderLimits()
  limits.attemptTimeout = .seconds(2)
  return limits
}()
