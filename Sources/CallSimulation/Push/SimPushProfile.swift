internal import CallCore
internal import CallWire

/// A phone's push settings: its app's SDK and its tokens. They move as a whole when another user
/// signs in on the phone.
struct SimPushProfile: Equatable {
  enum Kind: CaseIterable {
    /// No push at all: it is reached while it has a session.
    case none
    case callmesh
    /// A phone with Callmesh's own SDK and without an alert token: no notice reaches it.
    case callmeshVoIPOnly
    case fcm
    case webPush
    case apple
    case fcsdk
    case telnyx
    case telnyx3
    case twilio3
    case twilio5
    case sinch
    /// Its app's topic is one that no gateway has a key for.
    case stranger
  }

  var kind: Kind
  var serial: UInt64
  /// The app has withdrawn its tokens.
  var isBare = false

  static let topic = "sim.phone"

  private var app: (dialect: PushDialect, sdkName: String, sdkVersion: String) {
    switch kind {
    case .none, .callmesh, .callmeshVoIPOnly, .fcm, .webPush, .stranger:
      (.callmesh, "callmesh-swift", "1")
    case .apple: (.apple, "", "")
    case .fcsdk: (.fcsdk, "", "")
    case .telnyx: (.telnyx, "iOS-mpn-4.1.2", "4.1.2")
    case .telnyx3: (.telnyx, "iOS-3.0.1", "3.0.1")
    case .twilio3: (.twilio, "TwilioVoice", "3.1.0")
    case .twilio5: (.twilio, "TwilioVoice", "5.2.0")
    case .sinch: (.sinch, "", "")
    }
  }

  /// The major version that the app's reader of pushes was made with.
  var sdkMajorVersion: Int? { kind == .telnyx3 ? 3 : nil }

  private var voipToken: PushToken? {
    switch kind {
    case _ where isBare: nil
    case .none, .fcm, .webPush: nil
    // Every second phone of Sinch's rings by an alert.
    case .sinch where serial.isMultiple(of: 2): nil
    case .stranger: apns("a0", topic: "sim.stranger.voip")
    default: apns("a0", topic: Self.topic + ".voip")
    }
  }

  private var alertToken: PushToken? {
    switch kind {
    case _ where isBare: nil
    case .none, .callmeshVoIPOnly, .stranger, .twilio5: nil
    case .fcm:
      PushToken(provider: .fcm, environment: "", topic: "sim-project", token: "fcm:" + digits(32))
    case .webPush: webPush
    default: apns("b0", topic: Self.topic)
    }
  }

  /// Whether a push can make it ring, in a world whose gateways serve all but the strange topic.
  var wakes: Bool { kind != .none && kind != .stranger && !isBare }

  var tokens: [PushToken] { [voipToken, alertToken].compactMap { $0 } }

  func request(name: String) -> RegistrationRequest {
    guard kind != .none else { return RegistrationRequest(deviceName: name) }
    return RegistrationRequest(
      deviceName: name, voipToken: voipToken, alertToken: alertToken,
      dialect: app.dialect.rawValue, sdkName: app.sdkName, sdkVersion: app.sdkVersion)
  }

  // MARK: Tokens, in their one form

  /// Some apps register the wrong environment, or none.
  private func apns(_ prefix: String, topic: String) -> PushToken {
    let environments = ["production", "production", "", Self.sandbox]
    let token = prefix + digits(62)
    return PushToken(
      provider: .apns,
      environment: Self.isOfSandbox(serial) ? environments[Int(serial / 4 % 4)] : "production",
      topic: topic, token: token)
  }

  static let sandbox = "sandbox"

  private static func isOfSandbox(_ serial: UInt64) -> Bool { serial % 4 == 3 }

  /// Whether the provider knows the token in its sandbox only.
  static func isOfSandbox(_ token: PushToken) -> Bool {
    UInt64(token.token.suffix(8), radix: 16).map(isOfSandbox) ?? false
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
