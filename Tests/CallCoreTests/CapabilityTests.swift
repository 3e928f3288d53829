import CallCore
import Testing

/// Which SDK takes which clean-up push.
@Suite struct CapabilityTests {
  typealias Row = (dialect: String, name: String, version: String, expected: PushCapabilities)

  static let twilio: [(String, PushCapabilities)] = [
    ("1.9.9", []), ("2.0.0", .cancel), ("2.0.9", .cancel), ("2.0", .cancel), ("2", .cancel),
    ("2.1.0", []), ("2.1", []), ("2.9.9", []), ("3.0.0", .cancel), ("3.0.0-beta1", .cancel),
    ("3.9.12", .cancel), ("4.0.0", .cancel), ("4.9.99", .cancel), ("v4.2.0", .cancel),
    ("5.0.0", []), ("5.0.0-rc1", []), ("5.3.1", []), ("6.0.0", []), ("6.13.2", []), ("10.0.0", []),
    ("20.0.0", []), ("30.0.0", []), ("", []), ("latest", []), ("x.3.0", []), ("3000000000.1", []),
    ("99999999999999999999", []), ("3.99999999999.0", []), (".3.0", []), ("-3.0", []),
  ]

  static let telnyx: [Row] = [
    ("telnyx", "iOS", "", []),
    ("telnyx", "iOS-2.2.2", "", []),
    ("telnyx", "iOS-2.4.0", "", []),
    ("telnyx", "iOS-3.0.0", "", .missed),
    ("telnyx", "iOS-3.2.1", "", .missed),
    ("telnyx", "TelnyxRTC", "3.1.0", .missed),
    ("telnyx", "iOS-4.0.0", "", []),
    ("telnyx", "iOS-4.1.2", "", []),
    ("telnyx", "iOS-mpn-4.0.0", "", [.missed, .answeredElsewhere]),
    ("telnyx", "iOS-MPN-4.1.2", "", [.missed, .answeredElsewhere]),
    ("telnyx", "iOS-mpn", "4.1.2", [.missed, .answeredElsewhere]),
    ("telnyx", "TelnyxRTC", "30.0.0", []),
    ("telnyx", "iOS-empnada-4.0.0", "", []),
    ("telnyx", "Android-1.4.3", "", .missed),
    ("telnyx", "Android", "4.0.0", .missed),
    ("telnyx", "Androids-1.4.3", "", []),
    ("telnyx", "", "2.9.9", []),
    ("telnyx", "", "", []),
  ]

  private func registration(
    _ request: RegistrationRequest, capabilities: PushCapabilities? = nil
  ) -> Registration {
    Registration(
      user: UserKey(app: "demo", user: "bob"), device: "b1", request: request,
      registeredAt: Timestamp(microseconds: 1), seenAt: Timestamp(microseconds: 1),
      capabilities: capabilities)
  }

  /// Safari revokes a subscription for which nothing is shown.
  @Test func noSilentPushWhereThePlatformForbidsIt() {
    func capabilities(
      _ origin: String, _ declared: PushCapabilities? = nil, dialect: String = "",
      sdk: String = "", version: String = ""
    ) -> PushCapabilities {
      let token = PushToken(provider: .webPush, environment: "", topic: origin, token: "t")
      return registration(
        RegistrationRequest(
          alertToken: token, dialect: dialect, sdkName: sdk, sdkVersion: version,
          capabilities: declared)
      ).capabilities
    }
    #expect(capabilities("https://web.push.apple.com") == .missedNotice)
    #expect(capabilities("https://eu.push.apple.com") == .missedNotice)
    #expect(capabilities("https://fcm.googleapis.com") == [.ended, .missedNotice])
    // Whatever the dialect calls the push that says that a call is over.
    for (dialect, sdk, version) in [
      ("twilio", "TwilioVoice", "4.5.0"), ("telnyx", "iOS-3.2.1", ""),
      ("telnyx", "iOS-mpn-4.1.2", ""), ("sinch", "sinch-android-rtc", "5.0.0"),
    ] {
      let safari = "https://web.push.apple.com"
      #expect(capabilities(safari, dialect: dialect, sdk: sdk, version: version) == [])
      let chrome = "https://fcm.googleapis.com"
      #expect(capabilities(chrome, dialect: dialect, sdk: sdk, version: version) != [])
    }
    // Its worker shows something for each push.
    #expect(
      capabilities("https://web.push.apple.com", [.ended, .missedNotice])
        == [.ended, .missedNotice])
  }

  static let others: [Row] = [
    ("apple", "App", "3.0.0", []),
    ("fcsdk", "FCSDK", "3.0.0", []),
    ("sinch", "SinchRTC", "5.0.0", []),
    ("sinch", "SinchRTC-Android", "5.0.0", .cancel),
    ("sinch", "sinch-android-rtc", "", .cancel),
    ("callmesh", "CallmeshSwift", "0.1.0", [.ended, .missedNotice]),
    ("", "", "", [.ended, .missedNotice]),
    ("somebody's", "X", "3.0.0", []),
  ]

  static let rows: [Row] =
    twilio.map { (dialect: "twilio", name: "TwilioVoice", version: $0, expected: $1) } + telnyx
    + others

  @Test(arguments: rows)
  func table(dialect: String, name: String, version: String, expected: PushCapabilities) {
    let derived = PushCapabilities.derived(dialect: dialect, sdkName: name, sdkVersion: version)
    #expect(derived == expected)
  }

  @Test("what a device says outright counts, also when it is nothing") func saidOutright() {
    func registered(_ said: PushCapabilities?) -> PushCapabilities {
      registration(
        RegistrationRequest(
          dialect: "twilio", sdkName: "TwilioVoice", sdkVersion: "4.0.0", capabilities: said)
      ).capabilities
    }
    #expect(registered(nil) == .cancel)
    #expect(registered([]) == [])
    #expect(registered([.missed, .ended]) == [.missed, .ended])
  }

  @Test("frozen: what was kept counts, whatever the table says now") func frozen() {
    var kept = registration(
      RegistrationRequest(dialect: "twilio", sdkVersion: "6.0.0"), capabilities: .cancel)
    #expect(kept.capabilities == .cancel)
    kept.request.sdkVersion = "4.0.0"
    #expect(kept.capabilities == .cancel)
  }

  @Test func names() {
    #expect(
      PushCapabilities([.missed, .answeredElsewhere, .cancel, .ended, .missedNotice]).names
        == ["missed", "answeredElsewhere", "cancel", "ended", "missedNotice"])
    #expect(PushCapabilities([]).names.isEmpty)
  }

  // MARK: Which token

  private func tokens(
    voip: PushProvider?, alert: PushProvider?
  ) -> (ring: PushProvider?, notice: PushProvider?) {
    let device = registration(
      RegistrationRequest(
        voipToken: voip.map { Bench.alert("v", $0) }, alertToken: alert.map { Bench.alert("a", $0) }
      ))
    return (device.ringToken?.provider, device.noticeToken?.provider)
  }

  @Test(
    "an alert token of Apple's cannot ring; what needs report no call never goes to a VoIP token")
  func whichTokenRings() {
    #expect(tokens(voip: .apns, alert: nil) == (.apns, nil))
    #expect(tokens(voip: .apns, alert: .apns) == (.apns, .apns))
    #expect(tokens(voip: nil, alert: .apns) == (nil, .apns))
    #expect(tokens(voip: nil, alert: .fcm) == (.fcm, .fcm))
    #expect(tokens(voip: nil, alert: .webPush) == (.webPush, .webPush))
    #expect(tokens(voip: .fcm, alert: nil) == (.fcm, .fcm))
    #expect(tokens(voip: nil, alert: nil) == (nil, nil))
    #expect(tokens(voip: PushProvider.none, alert: .fcm) == (.fcm, .fcm))
    #expect(tokens(voip: .apns, alert: PushProvider.none) == (.apns, nil))
  }
}
