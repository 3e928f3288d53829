import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallTestKit
import Foundation
import Logging
import NIOPosix
import Synchronization

/// A sender and the server that it talks to, over real sockets and TLS.
final class SimulatedAPNs: Sendable {
  static let bundle = "com.example.calls"
  /// The outcome for a token that APNs has never known.
  static let wrong = PushOutcome.tokenRefused(reason: "BadDeviceToken", isSure: true)

  let apns: APNsSimulator
  let sender: APNsSender
  let log: LogCapture
  private let deliveries: Deliveries

  final class Deliveries: Sendable {
    let pushes = Mutex<[APNsPush]>([])
  }

  /// All that was logged, at any level.
  final class LogCapture: Sendable {
    private let text = Mutex("")
    var all: String { text.withLock { $0 } }
    private func add(_ line: String) { text.withLock { $0 += line + "\n" } }

    var logger: Logger {
      Logger(label: "test") { label in
        LineLogHandler(label: label, logLevel: .trace, asJSON: false) { self.add($0) }
      }
    }
  }

  static var clock: ClusterClock {
    ClusterClock(wallMicroseconds: Int64(Date().timeIntervalSince1970 * 1_000_000))
  }

  /// Times short enough for faults to be noticed within a test, long enough for a busy machine.
  static var limits: APNsLimits {
    var limits = APNsLimits()
    limits.attemptTimeout = .seconds(3)
    limits.quietBeforePing = .seconds(1)
    limits.pingTimeout = .seconds(1)
    limits.connectTimeout = .seconds(3)
    limits.drainGrace = .seconds(3)
    limits.reconnectDelay = .milliseconds(10)
    limits.reconnectDelayMax = .milliseconds(200)
    limits.noticeTimeout = .seconds(60)
    return limits
  }

  /// For faults that are noticed without any of these times: on a busy machine no answer is late.
  static var patientLimits: APNsLimits {
    var limits = limits
    limits.attemptTimeout = .seconds(30)
    limits.quietBeforePing = .seconds(20)
    limits.pingTimeout = .seconds(20)
    limits.connectTimeout = .seconds(30)
    return limits
  }

  /// - Parameters:
  ///   - devices: have VoIP tokens, numbered from 0.
  ///   - change: of the simulator's options.
  init(
    devices: Int = 0, limits: APNsLimits = SimulatedAPNs.limits, pem: String? = nil,
    _ change: (inout APNsSimulatorOptions) -> Void = { _ in }
  ) async throws {
    let deliveries = Deliveries()
    var options = APNsSimulatorOptions()
    change(&options)
    options.onPush = { push in deliveries.pushes.withLock { $0.append(push) } }
    self.deliveries = deliveries
    let server = try await APNsSimulator.start(options)
    apns = server
    log = LogCapture()
    do {
      sender = try APNsSender(
        [Self.configuration(server, limits: limits, pem: pem)],
        group: MultiThreadedEventLoopGroup.singleton, clock: Self.clock, logger: log.logger, seed: 7
      )
    } catch {
      await server.stop()
      throw error
    }
    for index in 0..<devices { register(index) }
  }

  static func configuration(
    _ apns: APNsSimulator, limits: APNsLimits = SimulatedAPNs.limits, pem: String? = nil,
    name: String = "test", environment: CallPush.APNsEnvironment = .production
  ) throws -> APNsConfiguration {
    var configuration = APNsConfiguration(
      name: name,
      credentials: try APNsCredentials(
        team: apns.key.team, keyID: apns.key.id, pem: pem ?? apns.key.privateKeyPEM),
      environment: environment, topics: [bundle])
    configuration.host = "127.0.0.1"
    configuration.port = apns.port
    configuration.extraTrustRootsPEM = [apns.authorityPEM]
    configuration.limits = limits
    return configuration
  }

  func stop() async {
    await sender.close()
    await apns.stop()
  }

  var delivered: [APNsPush] { deliveries.pushes.withLock { $0 } }
  /// How often each id reached a device.
  var deliveredByID: [String: Int] {
    delivered.reduce(into: [:]) { $0[$1.id, default: 0] += 1 }
  }

  static func token(_ index: Int) -> String {
    let digits = String(index, radix: 16)
    return String(repeating: "0", count: 64 - digits.count) + digits
  }

  static func id(_ index: Int) -> String {
    let digits = String(index, radix: 16)
    return "00000000-0000-4000-8000-" + String(repeating: "0", count: 12 - digits.count) + digits
  }

  static func message(
    _ index: Int, kind: PushMessage.Kind = .voip, environment: String = "production",
    for span: Span = .seconds(60), topic: String = bundle, trust: TokenTrust = .unproven
  ) -> PushMessage {
    var message = PushMessage(
      id: id(index),
      token: PushToken(
        provider: .apns, environment: environment, topic: topic, token: token(index)),
      purpose: .ring, payload: Array(#"{"aps":{},"call":"\#(index)"}"#.utf8), kind: kind,
      deadline: clock.now() + span)
    message.trust = trust
    return message
  }

  func send(_ message: PushMessage) async -> PushOutcome { await sender.send(message) }
  func send(_ index: Int) async -> PushOutcome { await send(Self.message(index)) }

  /// Sends all at once, as a burst of calls would.
  func send(_ messages: [PushMessage]) async -> [String: PushOutcome] {
    await withTaskGroup(of: (String, PushOutcome).self) { group in
      for message in messages {
        group.addTask { [sender] in (message.id, await sender.send(message)) }
      }
      return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
    }
  }
  func send(_ indices: Range<Int>) async -> [String: PushOutcome] {
    await send(indices.map { Self.message($0) })
  }

  /// Whether each push of this many was accepted, and reached its device once.
  func isAllSent(_ count: Int, _ outcomes: [String: PushOutcome]) -> Bool {
    outcomes.count == count && outcomes.values.allSatisfy { $0 == .accepted }
      && deliveredByID.count == count && deliveredByID.values.allSatisfy { $0 == 1 }
  }

  func register(_ index: Int, suffix: String = ".voip") {
    apns.register(Self.token(index), topic: Self.bundle + suffix)
  }
}
