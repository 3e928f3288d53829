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
      cache.authorization(origin: origin, now: Self.start + .seconds(seconds), chance: chance)
    }
    let first = try #require(get("https://a", 0))
    #expect(get("https://a", 21_599) == first)
    #expect(get("https://b", 10) != first)
    let renewed = get("https://a", 21_600, chance: 100)
    #expect(renewed != first)
    #expect(get("https://a", 43_299) == renewed)
    #expect(get("https://a", 43_300) != renewed)
    let latest = get("https://a", 43_301)
    cache.refused("another", origin: "https://a")
    #expect(get("https://a", 43_302) == latest)
    cache.refused(try #require(latest), origin: "https://a")
    #expect(get("https://a", 43_303) != latest)
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
