import CallCore
import CallPush
import CallWire
import Crypto
import Foundation
import Testing

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
