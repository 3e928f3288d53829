internal import CallCore
internal import CallWire

/// A phone's push settings: its app's SDK and its tokens. They move as a whole when another user
/// signs in on the phone.
struct SimPushProfile: Equatable {
  enum Kind: String, CaseIterable {
    /// No push at all: it is reached while it has a session.
    case none
    case callmesh
    /// Of Callmesh's own SDK, and without an alert token: no notice reaches it.
    case callmeshVoIPOnly = "callmesh, VoIP only"
    case fcm
    case webPush = "web push"
    case apple
    case fcsdk
    case telnyx
    case telnyx3 = "telnyx 3"
    case twilio3 = "twilio 3"
    case twilio5 = "twilio 5"
    case sinch
    /// Its app's topic is one that no gateway has a key for.
    case stranger
  }

  var kind: Kind
  /// The seed of the tokens.
  var serial: UInt64
  /// The app has withdrawn its tokens.
  var isBare = false

  static let topic = "sim.phone"
  static let strangeTopic = "sim.stranger"
  static let project = "sim-project"

  var dialect: PushDialect {
    switch kind {
    case .none, .callmesh, .callmeshVoIPOnly, .fcm, .webPush, .stranger: .callmesh
    case .apple: .apple
    case .fcsdk: .fcsdk
    case .telnyx, .telnyx3: .telnyx
    case .twilio3, .twilio5: .twilio
    case .sinch: .sinch
    }
  }

  private var sdk: (name: String, version: String) {
    switch kind {
    case .none, .callmesh, .callmeshVoIPOnly, .fcm, .webPush, .stranger: ("callmesh-swift", "1")
    case .apple, .fcsdk, .sinch: ("", "")
    case .telnyx: ("iOS-mpn-4.1.2", "4.1.2")
    case .telnyx3: ("iOS-3.0.1", "3.0.1")
    case .twilio3: ("TwilioVoice", "3.1.0")
    case .twilio5: ("TwilioVoice", "5.2.0")
    }
  }

  /// The major version that the app's reader of pushes was made with.
  var sdkMajorVersion: Int? {
    switch kind {
    case .telnyx3: 3
    default: nil
    }
  }

  var voipToken: PushToken? {
    switch kind {
    case .none, .fcm, .webPush: nil
    case .stranger: isBare ? nil : apns("a0", topic: Self.strangeTopic + ".voip")
    case .callmesh, .callmeshVoIPOnly, .apple, .fcsdk, .telnyx, .telnyx3, .twilio3, .twilio5,
      .sinch:
      isBare ? nil : apns("a0", topic: Self.topic + ".voip")
    }
  }

  var alertToken: PushToken? {
    if isBare { return nil }
    switch kind {
    case .none, .callmeshVoIPOnly, .stranger, .twilio5: return nil
    case .fcm:
      return PushToken(
        provider: .fcm, environment: "", topic: Self.project, token: "fcm:" + digits(32))
    case .webPush: return webPush
    case .callmesh, .apple, .fcsdk, .telnyx, .telnyx3, .twilio3, .sinch:
      return apns("b0", topic: Self.topic)
    }
  }

  /// Whether a push can make it ring, in a world whose gateways serve all but the strange topic.
  var wakes: Bool {
    switch kind {
    case .none, .stranger: false
    default: !isBare
    }
  }

  var tokens: [PushToken] { [voipToken, alertToken].compactMap { $0 } }

  /// What the app registers.
  func request(name: String) -> RegistrationRequest {
    guard kind != .none else { return RegistrationRequest(deviceName: name) }
    return RegistrationRequest(
      deviceName: name, voipToken: voipToken, alertToken: alertToken,
      dialect: dialect.rawValue, sdkName: sdk.name, sdkVersion: sdk.version)
  }

  // MARK: Tokens, in their one form

  private func apns(_ prefix: String, topic: String) -> PushToken {
    PushToken(
      provider: .apns, environment: "production", topic: topic, token: prefix + digits(62))
  }

  private var webPush: PushToken {
    let point = [UInt8](repeating: 7, count: WebPushSubscription.p256dhBytes - 1)
    let auth = [UInt8](repeating: 9, count: WebPushSubscription.authBytes)
    let text =
      "{\"endpoint\":\"https://push.sim/\(digits(24))\",\"keys\":{\"auth\":\""
      + "\(Base64URL.text(auth))\",\"p256dh\":\"\(Base64URL.text([4] + point))\"}}"
    return PushToken(provider: .webPush, environment: "", topic: "https://push.sim", token: text)
  }

  private func digits(_ count: Int) -> String {
    let hex = String(serial, radix: 16)
    return String(repeating: "0", count: max(0, count - hex.utf8.count)) + hex
  }
}
