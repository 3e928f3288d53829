import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallTestKit
import CallWire
import Crypto
import Foundation
import PushSimulators
import Testing

/// A sender and Google's servers, on one clock.
final class FCMStage: Sendable {
  let hand = HandClock()
  let authority: LoopbackAuthority?
  let fcm: FCMSimulator
  let metrics = MetricsRegistry()
  let sender: FCMSender

  init(secure: Bool = true) async throws {
    authority = secure ? try LoopbackAuthority() : nil
    let hand = hand
    fcm = try await FCMSimulator.start(authority: authority) { hand.nowSeconds }
    var configuration = FCMConfiguration(for: fcm)
    configuration.caFile = authority?.caFile
    sender = try FCMSender(configuration, environment: hand.environment(metrics: metrics))
  }

  var now: Timestamp { hand.clock.now() }

  func message(
    _ token: String = "device-1", seconds: Int64 = 30, purpose: PushPurpose = .ring,
    payload: String = #"{"call":"c1"}"#, collapseKey: String = "", trust: TokenTrust = .unproven
  ) -> PushMessage {
    .test(
      .fcm, token: token, purpose: purpose, payload: payload, deadline: now + .seconds(seconds),
      collapseKey: collapseKey, trust: trust)
  }

  func send(_ message: PushMessage) async -> PushOutcome { await sender.send(message) }
  func send(_ purpose: PushPurpose = .ring) async -> PushOutcome {
    await send(message(purpose: purpose))
  }

  /// Closes everything, and checks that the sender has violated nothing.
  func end(_ violations: [String] = []) async {
    await sender.close()
    await fcm.stop()
    #expect(fcm.violations == violations)
  }
}

extension FCMConfiguration {
  init(for fcm: FCMSimulator) {
    self.init(name: "main", serviceAccountFile: fcm.serviceAccountFile)
    endpoint = fcm.origin
    tokenEndpoint = fcm.tokenEndpoint
  }
}

/// A sender and a push service or two, on one clock.
final class WebPushStage: Sendable {
  let hand = HandClock()
  let authority: LoopbackAuthority
  let keyFile: String
  let services: [WebPushSimulator]
  /// A browser's at each service.
  let subscriptions: [String]
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
    subscriptions = services.map { $0.subscribe() }
    configuration.caFile = authority.caFile
    configuration.allowsPrivateAddresses = true
    if let limits { configuration.limits = limits }
    sender = try WebPushSender(configuration, environment: hand.environment())
  }

  var service: WebPushSimulator { services[0] }
  var now: Timestamp { hand.clock.now() }

  /// - Parameter subscription: nil: the first service's.
  func message(
    _ subscription: String? = nil, purpose: PushPurpose = .ring,
    payload: String = #"{"call":"c1"}"#, collapseKey: String = ""
  ) -> PushMessage {
    .test(
      .webPush, token: subscription ?? subscriptions[0], purpose: purpose, payload: payload,
      deadline: now + .seconds(30), collapseKey: collapseKey)
  }

  /// Pushes to so many new browsers of a service.
  func messages(_ count: Int, at service: Int = 0) -> [PushMessage] {
    (0..<count).map { _ in message(services[service].subscribe()) }
  }

  func send(_ message: PushMessage) async -> PushOutcome { await sender.send(message) }
  func send(_ purpose: PushPurpose = .ring) async -> PushOutcome {
    await send(message(purpose: purpose))
  }

  func end() async {
    await sender.close()
    for service in services {
      await service.stop()
      #expect(service.violations == [])
    }
    try? FileManager.default.removeItem(atPath: keyFile)
  }
}
