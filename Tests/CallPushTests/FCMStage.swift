import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallTestKit
import Foundation
import Logging
import PushSimulators
import Testing

/// A sender and Google's servers, on one clock.
final class FCMStage: Sendable {
  let hand = HandClock()
  let authority: LoopbackAuthority?
  let fcm: FCMSimulator
  let sender: FCMSender
  let clock: ClusterClock

  /// - Parameter realTime: pauses last in real time; the simulator's clock still stands still.
  init(
    secure: Bool = true, limits: SenderLimits = SenderLimits(), realTime: Bool = false
  ) async throws {
    authority = secure ? try LoopbackAuthority() : nil
    let hand = hand
    fcm = try await FCMSimulator.start(authority: authority) { hand.nowSeconds }
    var configuration = FCMConfiguration(for: fcm)
    configuration.caFile = authority?.caFile
    configuration.limits = limits
    guard realTime else {
      clock = hand.clock
      sender = try FCMSender(configuration, environment: hand.environment())
      return
    }
    clock = ClusterClock(wallMicroseconds: HandClock.startSeconds * 1_000_000)
    sender = try FCMSender(
      configuration, environment: SenderEnvironment(clock: clock, logger: Logger(label: "test")))
  }

  var now: Timestamp { clock.now() }

  func message(
    _ token: String = "device-1", seconds: Int64 = 30, purpose: PushPurpose = .ring,
    payload: String = #"{"call":"c1"}"#, collapseKey: String = ""
  ) -> PushMessage {
    .test(
      .fcm, token: token, purpose: purpose, payload: payload, deadline: now + .seconds(seconds),
      collapseKey: collapseKey)
  }

  func send(_ message: PushMessage) async -> PushOutcome { await sender.send(message) }

  /// Closes everything, and checks that the sender has violated nothing.
  func end(_ violations: [String] = []) async {
    await sender.close()
    await fcm.stop()
    #expect(fcm.violations == violations)
  }
}

let quickFCMLimits: SenderLimits = {
  var limits = SenderLimits()
  limits.attemptTimeout = .seconds(2)
  return limits
}()

extension FCMConfiguration {
  init(for fcm: FCMSimulator) {
    self.init(name: "main", serviceAccountFile: fcm.serviceAccountFile)
    endpoint = fcm.origin
    tokenEndpoint = fcm.tokenEndpoint
  }
}
