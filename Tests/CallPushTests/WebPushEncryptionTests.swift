import CallCore
import CallPush
import CallWire
import Crypto
import Foundation
import Testing

@Suite("Web Push, encryption")
struct WebPushEncryptionTests {
  /// RFC 8291, appendix A.
  enum RFC8291 {
    static let text = "When I grow up, I want to be a watermelon"
    static let ephemeral = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
    static let browser =
      "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    static let salt = "DGv6ra1nlYgDCS1FRnbzlw"
    static let auth = "BTBZMqHH6r4Tts7J_aSIgg"
    static let body =
      "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6"
      + "TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qul"
      + "cy4a-fN"
  }

  static func subscription(
    endpoint: String = "https://push.example.com/x", p256dh: String = RFC8291.browser,
    auth: String = RFC8291.auth
  ) -> String {
    #"{"endpoint":"\#(endpoint)","keys":{"p256dh":"\#(p256dh)","auth":"\#(auth)"}}"#
  }

  @Test func theVectorOfTheRFC() throws {
    let subscription = try #require(PushSubscription(Self.subscription()))
    let body = try WebPushEncryption.seal(
      Array(RFC8291.text.utf8), for: subscription,
      salt: Base64URL.bytes(RFC8291.salt),
      ephemeralKey: Base64URL.bytes(RFC8291.ephemeral))
    #expect(Base64URL.text(body) == RFC8291.body)
  }

  @Test func theLongestTextFillsTheBodyThatEveryServiceTakes() throws {
    let subscription = try #require(PushSubscription(Self.subscription()))
    let most = WebPushEncryption.textBytesMax
    #expect(most == 3993)
    let text = [UInt8](repeating: 7, count: most)
    #expect(try WebPushEncryption.seal(text, for: subscription).count == 4096)
    #expect(throws: WebPushEncryption.TooLong.self) {
      try WebPushEncryption.seal(text + [7], for: subscription)
    }
    #expect(try WebPushEncryption.seal([], for: subscription).count == 103)
  }

  @Test func noTwoBodiesAreAlike() throws {
    let subscription = try #require(PushSubscription(Self.subscription()))
    let bodies = try (0..<50).map { _ in
      try WebPushEncryption.seal([1, 2, 3], for: subscription)
    }
    #expect(Set(bodies.map { Array($0[..<16]) }).count == 50)
    #expect(Set(bodies.map { Array($0[21..<86]) }).count == 50)
  }

  @Test func aSubscriptionMayHaveMoreThanItsKeys() throws {
    let padded = Self.subscription(p256dh: RFC8291.browser + "=", auth: RFC8291.auth + "==")
    #expect(PushSubscription(padded) != nil)
    let more =
      #"{"expirationTime":null,"endpoint":"https://push.example.com/x","keys":{"auth":""#
      + RFC8291.auth + #"","p256dh":""# + RFC8291.browser + #""},"x":[1]}"#
    #expect(PushSubscription(more) != nil)
  }

  @Test func whatIsNoneIsRefused() throws {
    // The point with one bit of its second coordinate turned is not on the curve.
    var point = try #require(Base64URL.bytes(RFC8291.browser))
    point[64] ^= 1
    let key = P256.KeyAgreement.PrivateKey().publicKey
    let bad = [
      "", "{}", "[]", "https://push.example.com/x", String(repeating: "[", count: 3000),
      Self.subscription(p256dh: Base64URL.text(point)),
      Self.subscription(p256dh: Base64URL.text(Array(key.compressedRepresentation))),
      Self.subscription(p256dh: Base64URL.text([UInt8](repeating: 0, count: 65))),
      Self.subscription(p256dh: ""), Self.subscription(p256dh: "!"),
      Self.subscription(auth: "AAAA"), Self.subscription(auth: RFC8291.auth + "AAAA"),
      Self.subscription(endpoint: "http://push.example.com/x"),
      Self.subscription(
        endpoint: "https://push.example.com/" + String(repeating: "x", count: 2100)),
      Self.subscription() + String(repeating: " ", count: 4096),
    ]
    for text in bad { #expect(PushSubscription(text) == nil, "\(text.prefix(80))") }
  }
}

@Suite("Web Push, where pushes may go")
struct PushEndpointTests {
  static let standard = WebPushConfiguration.standardHosts

  func refusal(_ text: String, further: [String] = [], allowsPrivate: Bool = false) -> String? {
    guard let endpoint = PushEndpoint(text) else { return "not an endpoint" }
    let rules = (Self.standard + further).compactMap { PushHostRule($0) }
    return PushEndpointPolicy(rules: rules, allowsPrivate: allowsPrivate).refusal(endpoint)
  }

  @Test(arguments: [
    "https://fcm.googleapis.com/fcm/send/dpH5lCsTSSM:APA91b",
    "https://updates.push.services.mozilla.com/wpush/v2/gAAAA?x=1",
    "https://wns2-par02p.notify.windows.com/w/?token=BQYAAA%3d%3d",
    "https://web.push.apple.com/QGuQyavXutnMH", "https://FCM.googleapis.com:443/fcm/send/x",
  ])
  func theBrowsersServices(_ endpoint: String) { #expect(refusal(endpoint) == nil) }

  @Test(arguments: [
    "http://fcm.googleapis.com/x", "https://fcm.googleapis.com", "https:fcm.googleapis.com/x",
    "https://user@fcm.googleapis.com/x", "https://fcm.googleapis.com@evil.example/x",
    "https://fcm.googleapis.com:443@evil.example/x", "https://fcm.googleapis.com\\@evil.example/x",
    "https://fcm.googleapis.com/x#y", "https://fcm.googleapis.com:/x",
    "https://fcm.googleapis.com:0/x", "https://fcm.googleapis.com:65536/x",
    "https://fcm.googleapis.com:+443/x", "https://fcm.googleapis.com:443:443/x",
    "https://fcm.google apis.com/x", "https://fcm.googleapis.com/a b",
    "https://fcm.googleapis.com/a\r\nHost: x", "https://[::1]/x", "https://[::ffff:10.0.0.1]/x",
    "https:///x", "https://.fcm.googleapis.com/x", "https://fcm..googleapis.com/x",
    "https://fcm.googleapis.com./x", "https://fcm%2egoogleapis.com/x", "https://fcm。com/x",
    "ftp://fcm.googleapis.com/x", "//fcm.googleapis.com/x", "", "https://", "https://?x",
    "https://fcm.googleapis.com?x", "file:///etc/passwd",
  ])
  func whatIsNoEndpoint(_ endpoint: String) { #expect(PushEndpoint(endpoint) == nil) }

  @Test(arguments: [
    "https://127.0.0.1/x", "https://10.0.0.1/x", "https://169.254.169.254/latest/meta-data/",
    "https://192.168.0.1:443/x", "https://2130706433/x", "https://127.1/x",
    "https://0x7f000001/x", "https://0x7f.0.0.0x1/x", "https://localhost/x",
    "https://metadata.google.internal/x", "https://nas.local/x", "https://intranet/x",
    "https://1.0.0.127.in-addr.arpa/x",
  ])
  func addressesAndLocalNames(_ endpoint: String) {
    #expect(refusal(endpoint) == "the endpoint is an address, not a push service")
    // Not even where private addresses are allowed, unless they are listed.
    #expect(
      refusal(endpoint, allowsPrivate: true)
        == "the endpoint is at no push service of the list")
  }

  @Test(arguments: [
    "https://evil.example/x", "https://fcm.googleapis.com.evil.example/x",
    "https://xfcm.googleapis.com/x", "https://push.services.mozilla.com/x",
    "https://evilpush.services.mozilla.com/x", "https://storage.googleapis.com/x",
    "https://fcm.googleapis.com:8443/x", "https://notify.windows.com.evil.example/x",
  ])
  func otherHosts(_ endpoint: String) {
    #expect(refusal(endpoint) == "the endpoint is at no push service of the list")
  }

  @Test func anOperatorAddsHosts() {
    let further = ["push.example.com", "*.push.example.org:8443"]
    #expect(refusal("https://push.example.com/x", further: further) == nil)
    #expect(refusal("https://push.example.com:8443/x", further: further) != nil)
    #expect(refusal("https://a.push.example.org:8443/x", further: further) == nil)
    #expect(refusal("https://a.b.push.example.org:8443/x", further: further) == nil)
    #expect(refusal("https://push.example.org:8443/x", further: further) != nil)
    #expect(refusal("https://a.push.example.org/x", further: further) != nil)
  }

  @Test(arguments: ["", "*", "*.", "*.com", "a b", "https://x.y", "x.y:0", "x.y:", "x.y/z", "*x.y"])
  func whatIsNoRule(_ text: String) { #expect(PushHostRule(text) == nil) }

  @Test func theOriginIsThatOfTheAddress() throws {
    let plain = try #require(PushEndpoint("https://Push.Example.com:443/a/b?c=d"))
    #expect(plain.origin == "https://push.example.com")
    #expect(plain.url == "https://push.example.com/a/b?c=d")
    let other = try #require(PushEndpoint("https://push.example.com:8443/a"))
    #expect(other.origin == "https://push.example.com:8443")
  }
}

@Suite("Web Push, what answers mean")
struct WebPushVerdictTests {
  static let now = Timestamp(microseconds: 784_111_777_000_000)
  typealias Row = (
    status: Int, retryAfter: String?, renewed: Bool, seconds: Int64, verdict: AttemptVerdict
  )

  @Test func theTable() {
    func failed(_ reason: String) -> AttemptVerdict { .done(.failed(reason: reason)) }
    func rejected(_ reason: String) -> AttemptVerdict { .done(.rejected(reason: reason)) }
    func again(_ milliseconds: Int64, _ reason: String) -> AttemptVerdict {
      .retry(after: .milliseconds(milliseconds), reason: reason)
    }
    let rows: [Row] = [
      (200, nil, false, 30, .done(.accepted)), (201, nil, false, 30, .done(.accepted)),
      (202, nil, false, 30, .done(.accepted)),
      (301, nil, false, 30, rejected("HTTP 301")), (307, nil, false, 30, rejected("HTTP 307")),
      (400, nil, false, 30, rejected("HTTP 400")),
      (401, nil, false, 30, .renew(reason: "HTTP 401")),
      (401, nil, true, 30, rejected("HTTP 401")),
      (403, nil, false, 30, .renew(reason: "HTTP 403")),
      (403, nil, true, 30, rejected("HTTP 403")),
      (404, nil, false, 30, .done(.tokenGone(at: nil))),
      (406, nil, false, 30, again(10_000, "HTTP 406")),
      (408, nil, false, 30, again(500, "HTTP 408")),
      (410, nil, false, 30, .done(.tokenGone(at: nil))),
      (413, nil, false, 30, rejected("HTTP 413")), (415, nil, false, 30, rejected("HTTP 415")),
      (429, nil, false, 30, again(10_000, "HTTP 429")),
      (429, nil, false, 10, failed("HTTP 429")),
      (429, "4", false, 30, again(4000, "HTTP 429")),
      (429, "Sun, 06 Nov 1994 08:49:40 GMT", false, 30, again(3000, "HTTP 429")),
      (429, "30", false, 30, failed("HTTP 429")),
      (500, nil, false, 30, again(500, "HTTP 500")),
      (502, nil, false, 30, again(500, "HTTP 502")),
      (503, "2", false, 30, again(2000, "HTTP 503")),
      (503, "0", false, 30, again(100, "HTTP 503")),
      (503, "60", false, 30, failed("HTTP 503")),
      (507, nil, false, 0, failed("HTTP 507")),
    ]
    for row in rows {
      var headers: [String: String] = [:]
      headers["retry-after"] = row.retryAfter
      let context = AttemptContext(
        renewed: row.renewed, now: Self.now, deadline: Self.now + .seconds(row.seconds))
      #expect(
        WebPushVerdict.judge(
          .answer(ProviderAnswer(status: row.status, headers: headers)), context)
          == row.verdict, "\(row.status) \(row.retryAfter ?? "")")
    }
  }

  @Test func whatMayHaveArrivedIsRepeatedOnceAtMost() {
    var context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(30))
    #expect(
      WebPushVerdict.judge(.unknown("lost"), context)
        == .retry(after: .milliseconds(500), reason: "lost", .doubt))
    context.doubts = 1
    #expect(
      WebPushVerdict.judge(.unknown("lost"), context)
        == .done(.failed(reason: "lost", mayHaveArrived: true)))
    #expect(
      WebPushVerdict.judge(.notSent("no connection"), context)
        == .retry(after: .milliseconds(500), reason: "no connection"))
  }
}

@Suite("Web Push, VAPID")
struct VAPIDTests {
  static let start = Timestamp(microseconds: 1_800_000_000_000_000)
  func key(_ subject: String = "mailto:push@example.com") throws -> VAPIDKey {
    try VAPIDKey(
      pem: Array(P256.Signing.PrivateKey().pemRepresentation.utf8), file: "vapid.pem",
      subject: subject, sender: "web")
  }

  @Test func anAuthorizationIsUsedForHoursAndPerOrigin() throws {
    var cache = VAPIDCache(key: try key())
    func get(_ origin: String, _ seconds: Int64, chance: UInt64 = 0) -> String? {
      cache.authorization(
        origin: origin, now: Self.start + .seconds(seconds), chance: chance)
    }
    let first = get("https://a", 0)
    #expect(first != nil)
    #expect(get("https://a", 21_599) == first)
    let other = get("https://b", 10)
    #expect(other != first)
    let renewed = get("https://a", 21_600, chance: 100)
    #expect(renewed != first)
    #expect(get("https://a", 43_299) == renewed)
    #expect(get("https://a", 43_300) != renewed)
    let latest = get("https://a", 43_301)
    cache.refused("another", origin: "https://a")
    #expect(
      cache.authorization(origin: "https://a", now: Self.start + .seconds(43_302), chance: 0)
        == latest)
    cache.refused(try #require(latest), origin: "https://a")
    #expect(
      cache.authorization(origin: "https://a", now: Self.start + .seconds(43_303), chance: 0)
        != latest)
  }

  @Test func whatItHoldsIsLimited() throws {
    var cache = VAPIDCache(key: try key())
    let first = cache.authorization(origin: "https://0", now: Self.start, chance: 0)
    for number in 1..<1100 {
      let now = Self.start + .seconds(Int64(number))
      _ = cache.authorization(origin: "https://\(number)", now: now, chance: 0)
    }
    let later = Self.start + .seconds(2000)
    #expect(cache.authorization(origin: "https://0", now: later, chance: 0) != first)
  }

  @Test(arguments: [
    "", "push@example.com", "mailto:", "mailto:nobody", "http://x", "https://", "mailto:a@b c",
  ])
  func aSubjectIsAnAddress(_ subject: String) throws {
    let error = #expect(throws: SenderConfigurationError.self) { try key(subject) }
    #expect(error?.place == "subject")
  }

  @Test func noErrorShowsAKey() throws {
    let pem = P256.Signing.PrivateKey().pemRepresentation
    let broken = pem.replacingOccurrences(of: "-----END", with: "AAAA\n-----END")
    let other = P384.Signing.PrivateKey().pemRepresentation
    for text in ["", "nonsense", broken, other] {
      let error = #expect(throws: SenderConfigurationError.self) {
        try VAPIDKey(
          pem: Array(text.utf8), file: "vapid.pem", subject: "mailto:a@b", sender: "web")
      }
      let said = try #require(error).description
      #expect(said.contains("vapid.pem"))
      #expect(!said.contains("MI"))
    }
  }
}
