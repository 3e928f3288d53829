import CallCore
import Testing

/// Which SDK takes which clean-up push.
@Suite struct CapabilityTests {
  struct Row: Sendable, CustomStringConvertible {
    var dialect: String
    var name: String
    var version: String
    var expected: PushCapabilities
    var description: String { "\(dialect) \(name) \(version)" }
    init(_ dialect: String, _ name: String, _ version: String, _ expected: PushCapabilities) {
      self.dialect = dialect
      self.name = name
      self.version = version
      self.expected = expected
    }
  }

  static let twilio: [Row] = [
    ("1.9.9", []), ("2.0.0", .cancel), ("2.0.9", .cancel), ("2.0", .cancel), ("2", .cancel),
    ("2.1.0", []), ("2.1", []), ("2.9.9", []), ("3.0.0", .cancel), ("3.0.0-beta1", .cancel),
    ("3.9.12", .cancel), ("4.0.0", .cancel), ("4.9.99", .cancel), ("v4.2.0", .cancel),
    ("5.0.0", []), ("5.0.0-rc1", []), ("5.3.1", []), ("6.0.0", []), ("6.13.2", []), ("10.0.0", []),
    ("20.0.0", []), ("30.0.0", []), ("", []), ("latest", []), ("x.3.0", []), ("3000000000.1", []),
    ("99999999999999999999", []), ("3.99999999999.0", []), (".3.0", []), ("-3.0", []),
  ].map { Row("twilio", "TwilioVoice", $0.0, $0.1) }

  static let telnyx: [Row] = [
    Row("telnyx", "iOS", "", []),
    Row("telnyx", "iOS-2.2.2", "", []),
    Row("telnyx", "iOS-2.4.0", "", []),
    Row("telnyx", "iOS-3.0.0", "", .missed),
    Row("telnyx", "iOS-3.2.1", "", .missed),
    Row("telnyx", "TelnyxRTC", "3.1.0", .missed),
    Row("telnyx", "iOS-4.0.0", "", []),
    Row("telnyx", "iOS-4.1.2", "", []),
    Row("telnyx", "iOS-mpn-4.0.0", "", [.missed, .answeredElsewhere]),
    Row("telnyx", "iOS-MPN-4.1.2", "", [.missed, .answeredElsewhere]),
    Row("telnyx", "iOS-mpn", "4.1.2", [.missed, .answeredElsewhere]),
    Row("telnyx", "TelnyxRTC", "30.0.0", []),
    Row("telnyx", "iOS-empnada-4.0.0", "", []),
    Row("telnyx", "Android-1.4.3", "", .missed),
    Row("telnyx", "Android", "4.0.0", .missed),
    Row("telnyx", "Androids-1.4.3", "", []),
    Row("telnyx", "", "2.9.9", []),
    Row("telnyx", "", "", []),
  ]

  /// Safari revokes a subscription for which nothing is shown.
  @Test func noSilentPushWhereThePlatformForbidsIt() {
    func capabilities(
      _ origin: String, _ declared: PushCapabilities? = nil, dialect: String = "",
      sdk: String = "", version: String = ""
    ) -> PushCapabilities {
      let token = PushToken(provider: .webPush, environment: "", topic: origin, token: "t")
      return Registration(
        user: UserKey(app: "demo", user: "bob"), device: "web",
        request: RegistrationRequest(
          alertToken: token, dialect: dialect, sdkName: sdk, sdkVersion: version,
          capabilities: declared),
        registeredAt: Timestamp(microseconds: 1), seenAt: Timestamp(microseconds: 1)
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
    Row("apple", "App", "3.0.0", []),
    Row("fcsdk", "FCSDK", "3.0.0", []),
    Row("sinch", "SinchRTC", "5.0.0", []),
    Row("sinch", "SinchRTC-Android", "5.0.0", .cancel),
    Row("sinch", "sinch-android-rtc", "", .cancel),
    Row("callmesh", "CallmeshSwift", "0.1.0", [.ended, .missedNotice]),
    Row("", "", "", [.ended, .missedNotice]),
    Row("somebody's", "X", "3.0.0", []),
  ]

  @Test(arguments: twilio + telnyx + others) func table(_ row: Row) {
    let derived = PushCapabilities.derived(
      dialect: row.dialect, sdkName: row.name, sdkVersion: row.version)
    #expect(derived == row.expected)
  }

  @Test("what a device says outright counts, also when it is nothing") func saidOutright() {
    func registered(_ said: PushCapabilities?) -> PushCapabilities {
      Registration(
        user: UserKey(app: "demo", user: "bob"), device: "b1",
        request: RegistrationRequest(
          dialect: "twilio", sdkName: "TwilioVoice", sdkVersion: "4.0.0", capabilities: said),
        registeredAt: Timestamp(microseconds: 1), seenAt: Timestamp(microseconds: 1)
      ).capabilities
    }
    #expect(registered(nil) == .cancel)
    #expect(registered([]) == [])
    #expect(registered([.missed, .ended]) == [.missed, .ended])
  }

  @Test("frozen: what was kept counts, whatever the table says now") func frozen() {
    var kept = Registration(
      user: UserKey(app: "demo", user: "bob"), device: "b1",
      request: RegistrationRequest(dialect: "twilio", sdkVersion: "6.0.0"),
      registeredAt: Timestamp(microseconds: 1), seenAt: Timestamp(microseconds: 1),
      capabilities: .cancel)
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
    let registration = Registration(
      user: UserKey(app: "demo", user: "bob"), device: "b1",
      request: RegistrationRequest(
        voipToken: voip.map { Bench.alert("v", $0) }, alertToken: alert.map { Bench.alert("a", $0) }
      ),
      registeredAt: Timestamp(microseconds: 1), seenAt: Timestamp(microseconds: 1))
    return (registration.ringToken?.provider, registration.noticeToken?.provider)
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
