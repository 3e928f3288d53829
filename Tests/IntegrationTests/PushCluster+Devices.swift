import CallClient
import CallCore
import CallTestKit
import CallWire
import Foundation
import PushSimulators
import Synchronization

// MARK: Devices that sleep

extension PushCluster {
  static func randomHex() -> String {
    (0..<32).map { _ in
      let byte = UInt8.random(in: 0...255)
      return (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
  }

  /// A token for calls that Apple gave a device, known to APNs. What reaches it is judged: a call that
  /// is pushed twice in two ways counts as a violation.
  func voipToken() -> PushToken {
    let token = Self.randomHex()
    apns.register(token, topic: Self.bundle + ".voip")
    devices.register(
      token,
      APNsDevices.Device { push in
        switch try? PushReader(.callmesh).read(push.payload) {
        case .invite(let invite): .call(id: invite.call.description)
        case .stop(let stop): .end(id: stop.call.description, kind: stop.purpose.name)
        case .missed, nil: .unreadable
        }
      })
    return PushToken(provider: .apns, environment: "production", topic: Self.bundle, token: token)
  }

  func alertToken() -> PushToken {
    let token = Self.randomHex()
    apns.register(token, topic: Self.bundle)
    return PushToken(provider: .apns, environment: "production", topic: Self.bundle, token: token)
  }

  func fcmToken() -> PushToken {
    PushToken(
      provider: .fcm, environment: "", topic: fcm.project,
      token: "f\(Self.randomHex()):APA91b\(Self.randomHex())")
  }

  /// A new browser's subscription. The simulator counts them from 0.
  func webToken() -> PushToken {
    PushToken(provider: .webPush, environment: "", topic: "", token: web.subscribe())
  }

  /// Registers a device that has no session.
  func register(
    _ user: String, _ device: String, voip: PushToken? = nil, alert: PushToken? = nil,
    capabilities: PushCapabilities? = nil
  ) async throws {
    let login = try await TestDevice.token(cluster.keys, user: user, device)
    loginsUsed.withLock { $0.append(login) }
    _ = try await http.register(
      RegistrationRequest(
        deviceName: "\(user)'s \(device)", voipToken: voip, alertToken: alert,
        capabilities: capabilities),
      token: login)
  }

  func attached(
    _ user: String, _ name: String, wokenFor call: CallID? = nil
  ) async throws -> TestDevice {
    try await cluster.device(user, name, edges: ["e1"], wokenFor: call)
  }

  // MARK: What reached them

  func newsByAPNs(_ token: PushToken) throws -> [PushNews] {
    try mail.pushes(to: token.token).map { try PushReader(.callmesh).read($0.payload) }
  }

  func newsByFCM(_ token: PushToken) throws -> [PushNews] {
    try fcm.accepted.filter { $0.token == token.token }.map {
      try PushReader(.callmesh).read(Array(JSONEncoder().encode($0.data)))
    }
  }

  func newsByWebPush(_ subscription: Int) throws -> [PushNews] {
    try web.accepted.filter { $0.subscription == subscription }.map {
      try PushReader(.callmesh).read($0.text)
    }
  }
}

extension [PushNews] {
  var invite: PushInvite? {
    for case .invite(let invite) in self { return invite }
    return nil
  }

  var purposes: Set<PushPurpose> { Set(map(\.purpose)) }

  func has(_ purpose: PushPurpose, of call: CallID) -> Bool {
    contains { $0.purpose == purpose && $0.call == call }
  }
}
