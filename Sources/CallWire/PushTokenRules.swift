internal import CallCore

/// Checks one push token of a registration and brings it into its canonical form.
struct PushTokenRules {
  enum Field: String {
    case voip = "voipToken"
    case alert = "alertToken"
  }

  /// Named in the error messages.
  let field: Field

  /// Hexadecimal digits of an APNs token: 32 bytes at present. Apple says to take no length for
  /// granted; none was ever shorter.
  static let apnsDigitsMinimum = 64
  static let topicBytesMaximum = 255

  func normalised(_ token: PushToken) throws(CallError) -> PushToken {
    let most =
      token.provider == .webPush
      ? FieldRules.subscriptionBytesMaximum : FieldRules.pushTokenBytesMaximum
    let size = 1...most
    guard size.contains(token.token.utf8.count) else {
      throw refusal(".token is \(size.lowerBound) to \(size.upperBound) bytes.")
    }
    var token = token
    token.fingerprint = ""
    switch token.provider {
    case .none: throw refusal(".provider is apns, fcm or webPush.")
    case .apns: try normaliseAPNs(&token)
    case .fcm: try normaliseFCM(&token)
    case .webPush: try normaliseWebPush(&token)
    }
    return token
  }

  // MARK: APNs

  private func normaliseAPNs(_ token: inout PushToken) throws(CallError) {
    switch token.environment {
    case "", "production", "sandbox": break
    default: throw refusal(".environment is production or sandbox.")
    }
    guard let digits = Self.apnsDigits(token.token) else {
      throw refusal(
        ".token: an APNs token is \(Self.apnsDigitsMinimum) or more hexadecimal digits, an even "
          + "number. Send the bytes that the system gave the app, two digits each.")
    }
    token.token = digits
    guard Self.isTopic(token.topic) else {
      throw refusal(
        ".topic: give the app's bundle id, of letters, digits, '.', '-' and '_', at most "
          + "\(Self.topicBytesMaximum) bytes.")
    }
    try normaliseTopic(&token)
  }

  /// The topic of VoIP pushes is the bundle id and `.voip`; that of all others must not be (Apple,
  /// "Sending notification requests to APNs").
  private func normaliseTopic(_ token: inout PushToken) throws(CallError) {
    let isVoIP = token.topic.hasSuffix(".voip")
    switch field {
    case .voip:
      if !isVoIP { token.topic += ".voip" }
      guard token.topic.utf8.count <= Self.topicBytesMaximum else {
        throw refusal(
          ".topic is at most \(Self.topicBytesMaximum) bytes, with the .voip at its end.")
      }
    case .alert:
      if isVoIP {
        throw refusal(
          ".topic ends in .voip: register the token that PushKit gave the app as voipToken.")
      }
    }
  }

  /// The digits in lower case. Old SDKs hand out what `NSData` prints: `<c0ffee00 c0ffee00 …>`.
  private static func apnsDigits(_ text: String) -> String? {
    var bytes = text.utf8.trimmingSpace()
    if bytes.first == UInt8(ascii: "<"), bytes.last == UInt8(ascii: ">"), bytes.count >= 2 {
      bytes = bytes.dropFirst().dropLast()
    }
    var digits: [UInt8] = []
    digits.reserveCapacity(bytes.count)
    for byte in bytes {
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"):
        digits.append(byte)
      case UInt8(ascii: "A")...UInt8(ascii: "F"): digits.append(byte | 0x20)
      case UInt8(ascii: " "): continue
      default: return nil
      }
    }
    guard digits.count >= apnsDigitsMinimum, digits.count % 2 == 0 else { return nil }
    return String(decoding: digits, as: UTF8.self)
  }

  private static func isTopic(_ text: String) -> Bool {
    (1...topicBytesMaximum).contains(text.utf8.count)
      && text.utf8.allSatisfy { isWord($0) || $0 == UInt8(ascii: ".") }
  }

  private static func isWord(_ byte: UInt8) -> Bool {
    byte.isASCIILetter || byte.isASCIIDigit || "-_".utf8.contains(byte)
  }

  // MARK: FCM

  private func normaliseFCM(_ token: inout PushToken) throws(CallError) {
    try checkNotVoIP()
    try dropEnvironment(&token)
    let bytes = token.token.utf8.trimmingSpace()
    let text = String(decoding: bytes, as: UTF8.self)
    guard !text.isEmpty, FieldRules.isPrintable(text) else {
      throw refusal(
        ".token: an FCM token is printable text. Send what getToken() gave the app, as it is.")
    }
    token.token = text
    // It becomes part of a path. Old projects have a domain and a colon before their name.
    let isProject = token.topic.utf8.allSatisfy {
      Self.isWord($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: ":")
    }
    guard isProject, token.topic.utf8.count <= Self.topicBytesMaximum else {
      throw refusal(".topic: give the id of the Firebase project, or nothing.")
    }
  }

  // MARK: Web Push

  private func normaliseWebPush(_ token: inout PushToken) throws(CallError) {
    try checkNotVoIP()
    try dropEnvironment(&token)
    guard let subscription = WebPushSubscription(json: token.token) else {
      throw refusal(
        ".token: a Web Push token is JSON.stringify(subscription): an https endpoint without a "
          + "user of at most \(WebPushSubscription.endpointBytesMax) bytes, keys.p256dh of 65 bytes and "
          + "keys.auth of 16, in base64url.")
    }
    // Browsers name a subscription that they have ended so (RFC 2606).
    if subscription.origin.hasSuffix(".invalid") {
      throw refusal(".token: the browser has ended this subscription. Subscribe anew.")
    }
    token.token = subscription.json
    token.topic = subscription.origin
  }

  // MARK: Parts

  private func checkNotVoIP() throws(CallError) {
    if case .voip = field {
      throw refusal(": only APNs has VoIP tokens. Register this one as alertToken.")
    }
  }

  private func dropEnvironment(_ token: inout PushToken) throws(CallError) {
    guard ["", "production"].contains(token.environment) else {
      throw refusal(".environment: only APNs has another one than production.")
    }
    token.environment = ""
  }

  private func refusal(_ what: String) -> CallError {
    CallError(.invalidPushToken, field.rawValue + what)
  }
}

extension String.UTF8View {
  /// Without blanks, tabs and line ends at both ends.
  fileprivate func trimmingSpace() -> Substring.UTF8View {
    func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0d).contains(byte) }
    var rest = self[...]
    while let first = rest.first, isSpace(first) { rest.removeFirst() }
    while let last = rest.last, isSpace(last) { rest.removeLast() }
    return rest
  }
}
