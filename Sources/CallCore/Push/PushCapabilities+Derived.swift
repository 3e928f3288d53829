/// The clean-up pushes that each SDK takes.
///
/// A VoIP push that an app does not know is worse than none: iOS ends an app that does not report a
/// call for it, and an app that takes it for a call rings again. So an SDK that is not in this table gets
/// none, and its device learns of the end when it attaches.
extension RegistrationRequest {
  /// Safari revokes a subscription whose service worker shows nothing for a push. If a worker declares nothing, it is
  /// not known whether it shows the end of a call, whatever its dialect calls that push. So it gets the notice alone,
  /// which has something to show.
  var derivedCapabilities: PushCapabilities {
    let derived = PushCapabilities.derived(
      dialect: dialect, sdkName: sdkName, sdkVersion: sdkVersion)
    guard let token = alertToken, token.provider == .webPush,
      token.topic == "https://web.push.apple.com" || token.topic.hasSuffix(".push.apple.com")
    else { return derived }
    return derived.intersection(.missedNotice)
  }
}

extension PushCapabilities {
  /// The capabilities of a device that registers with this SDK and declares none itself.
  /// - Parameters:
  ///   - dialect: as in the registration; empty for Callmesh's own.
  ///   - sdkName: the SDK's name, or the User-Agent that it sends.
  ///   - sdkVersion: such as `3.0.1`; where it is empty, a version at the end of the name counts.
  public static func derived(dialect: String, sdkName: String, sdkVersion: String)
    -> PushCapabilities
  {
    let version = SDKVersion(sdkVersion) ?? SDKVersion(endOf: sdkName)
    switch PushDialect(rawValue: dialect.isEmpty ? "callmesh" : dialect) {
    // Both on the alert token, which asks nothing of the app.
    case .callmesh: return [.ended, .missedNotice]
    case .twilio: return version.map(twilio) ?? []
    case .telnyx: return telnyx(sdkName, version)
    case .sinch: return sdkName.lowercased().contains("android") ? .cancel : []
    case .apple, .fcsdk, .none: return []
    }
  }

  /// Twilio's guide for iOS 13: 2.1 and 5.0 and what follows them take no cancel push; 2.1 is newer
  /// than 4.x in this, so the order is not that of the numbers.
  private static func twilio(_ version: SDKVersion) -> PushCapabilities {
    let takesCancel =
      (SDKVersion(2, 0)..<SDKVersion(2, 1)).contains(version)
      || (SDKVersion(3, 0)..<SDKVersion(5, 0)).contains(version)
    return takesCancel ? .cancel : []
  }

  /// Telnyx: 3.x always takes "Missed call!" and knows no other; from 4.0 on apps opt in, which shows
  /// as `mpn` in the User-Agent (`iOS-mpn-4.1.2`), and know "Answered Elsewhere" as well. Apps on Android take
  /// "Missed call!" with every version, for any call that ended before they connected.
  private static func telnyx(_ name: String, _ version: SDKVersion?) -> PushCapabilities {
    let tags = name.lowercased().split { !$0.isLetter && !$0.isNumber }
    if tags.contains("mpn") { return [.missed, .answeredElsewhere] }
    return version?.major == 3 || tags.contains("android") ? .missed : []
  }
}

/// A version as SDKs write it: up to three numbers, perhaps with a letter before and more behind.
struct SDKVersion: Comparable, Sendable {
  var major: UInt32
  var minor: UInt32
  var patch: UInt32

  init(_ major: UInt32, _ minor: UInt32, _ patch: UInt32 = 0) {
    self.major = major
    self.minor = minor
    self.patch = patch
  }

  /// Reads `3`, `3.1`, `v3.1.2`, `3.1.2-beta.4`, `3.1.2+build`; nil for what does not begin with a
  /// number, and for numbers that no version has.
  init?(_ text: some StringProtocol) {
    var numbers: [UInt32] = []
    var rest = text.utf8.drop { $0 == UInt8(ascii: " ") }
    if let first = rest.first, first == UInt8(ascii: "v") || first == UInt8(ascii: "V") {
      rest = rest.dropFirst()
    }
    while numbers.count < 3 {
      let digits = rest.prefix(while: \.isASCIIDigit)
      guard !digits.isEmpty, digits.count <= 9,
        let number = UInt32(String(decoding: digits, as: UTF8.self))
      else { break }
      numbers.append(number)
      rest = rest.dropFirst(digits.count)
      guard rest.first == UInt8(ascii: ".") else { break }
      rest = rest.dropFirst()
    }
    // Nine digits and still more: not a version but a date or a hash.
    if let next = rest.first, next.isASCIIDigit, numbers.count < 3 { return nil }
    guard let major = numbers.first else { return nil }
    self.init(major, numbers.count > 1 ? numbers[1] : 0, numbers.count > 2 ? numbers[2] : 0)
  }

  /// Reads the version at the end of a User-Agent such as `iOS-3.0.1` or `TelnyxRTC/3.0.1`.
  init?(endOf name: String) {
    let last = name.split { $0 == "-" || $0 == "/" || $0 == " " }.last
    guard let last, let version = SDKVersion(last) else { return nil }
    self = version
  }

  static func < (a: Self, b: Self) -> Bool {
    (a.major, a.minor, a.patch) < (b.major, b.minor, b.patch)
  }
}
