import CallCore
import CallTestKit
import CallWire
import Testing

private let otherKey = APNsProviderKey(id: "KEYID99999", team: "TEAMID1234")
private let strangerKey = APNsProviderKey(id: "KEYID00000", team: "TEAMID9999")
private let second = Span.seconds(1)

/// The provider tokens of one connection.
private struct Bench {
  var identity = ConnectionIdentity()
  var teams = APNsTeams()
  var leniency: APNsLeniency = []
  var limits = ConnectionIdentity.Limits()
  var environment = APNsEnvironment.production

  init(_ keys: [APNsProviderKey] = [sampleKey, otherKey, strangerKey]) {
    for key in keys { teams.add(key, bundles: ["b.\(key.team)"]) }
  }

  mutating func admit(_ token: String?, at now: Timestamp = noon) -> APNsReason? {
    refusal(token.map { "bearer \($0)" }, at: now)?.reason
  }

  mutating func refusal(_ authorization: String?, at now: Timestamp = noon) -> Refusal? {
    do throws(Refusal) {
      try identity.admit(
        authorization: authorization, teams: &teams, environment: environment, limits: limits,
        leniency: leniency, now: now)
      return nil
    } catch {
      return error
    }
  }
}

private func minutes(_ count: Int64) -> Timestamp { noon + .seconds(60 * count) }

struct ProviderTokenTests {
  @Test("R12: what is no bearer token is missing") func missing() {
    var bench = Bench()
    #expect(bench.admit(nil) == .missingProviderToken)
    let token = sampleKey.token(issuedAt: noon)
    #expect(bench.refusal(token)?.reason == .missingProviderToken)
    #expect(bench.refusal("Bearer \(token)")?.reason == .missingProviderToken)
    #expect(bench.refusal("bearer \(token)") == nil)
  }

  static let header = #"{"alg":"ES256","kid":"KEYID12345"}"#
  static let iat = noon.microseconds / 1_000_000

  @Test("R12: ES256, a known key, its team, a whole iat, nothing malformed") func malformed() {
    let claims = #"{"iss":"TEAMID1234","iat":\#(Self.iat)}"#
    func admit(_ header: String, _ claims: String) -> APNsReason? {
      var bench = Bench()
      return bench.admit(sampleKey.token(header: header, claims: claims))
    }
    #expect(admit(Self.header, claims) == nil)
    #expect(admit(#"{"alg":"ES256","typ":"JWT","kid":"KEYID12345"}"#, claims) == nil)
    for wrong in [
      #"{"alg":"HS256","kid":"KEYID12345"}"#, #"{"alg":"none","kid":"KEYID12345"}"#,
      #"{"alg":"ES256"}"#, #"{"alg":"ES256","kid":"KEYID77777"}"#, #"{"kid":"KEYID12345"}"#,
      #"{"alg":"ES256","kid":"KEYID12345","kid":"KEYID12345"}"#, "[]", "",
      // Another key's name over this one's signature.
      #"{"alg":"ES256","kid":"KEYID99999"}"#,
    ] { #expect(admit(wrong, claims) == .invalidProviderToken, "\(wrong)") }
    let times = ["\"\(Self.iat)\"", "\(Self.iat).5", "-1", "9223372036854775807", "null"]
    for wrong in times.map({ #"{"iss":"TEAMID1234","iat":\#($0)}"# }) + [
      #"{"iss":"TEAMID9999","iat":\#(Self.iat)}"#, #"{"iat":\#(Self.iat)}"#,
      #"{"iss":"TEAMID1234"}"#, "{",
    ] { #expect(admit(Self.header, wrong) == .invalidProviderToken, "\(wrong)") }
  }

  @Test("R12: the signature is 64 bytes R||S of exactly these bytes, in canonical base64url")
  func signature() {
    var bench = Bench()
    let good = sampleKey.token(issuedAt: noon)
    let parts = good.split(separator: ".")
    let later = sampleKey.token(issuedAt: noon + second).split(separator: ".")
    for wrong in [
      sampleKey.token(issuedAt: noon, der: true), good + "=", good + ".x",
      String(good.dropLast()), "", "..", "\(parts[0]).\(parts[1]).\(later[2])",
      String(repeating: "a", count: 2049),
    ] { #expect(bench.admit(wrong) == .invalidProviderToken, "\(wrong)") }
    #expect(bench.admit(good) == nil)
  }

  @Test("R12: the tolerant switches take DER and a string as iat, and nothing else")
  func leniency() {
    var bench = Bench()
    bench.leniency = [.derSignatures]
    #expect(bench.admit(sampleKey.token(issuedAt: noon, der: true)) == nil)
    bench = Bench()
    func string(_ iat: String) -> String {
      sampleKey.token(header: Self.header, claims: #"{"iss":"TEAMID1234","iat":"\#(iat)"}"#)
    }
    bench.leniency = [.stringIssuedAt]
    #expect(bench.admit(string("x")) == .invalidProviderToken)
    #expect(bench.admit(string("\(Self.iat)")) == nil)
  }

  @Test("R12: 60 minutes old is fine, a second more is not; from the future never") func age() {
    for (age, reason) in [
      (0, nil), (3600, nil), (3601, .expiredProviderToken), (-1, .invalidProviderToken),
    ] as [(Int64, APNsReason?)] {
      var bench = Bench()
      #expect(
        bench.admit(sampleKey.token(issuedAt: noon + .seconds(-age))) == reason, "\(age)")
    }
    // Whole seconds count: within the second of its iat a token is not from the future.
    var bench = Bench()
    let token = sampleKey.token(issuedAt: noon)
    #expect(bench.admit(token, at: noon + .seconds(3600) + .milliseconds(999)) == nil)
  }

  @Test("R13: a second token 20 minutes after the first use of the first, not sooner")
  func updates() {
    var bench = Bench()
    let first = sampleKey.token(issuedAt: minutes(-30))
    let next = sampleKey.token(issuedAt: noon)
    #expect(bench.admit(first) == nil)
    #expect(bench.admit(first, at: minutes(10)) == nil)
    let short = Timestamp(microseconds: minutes(20).microseconds - 1)
    #expect(bench.admit(next, at: short) == .tooManyProviderTokenUpdates)
    // The former token remains in use.
    #expect(bench.admit(first, at: short) == nil)
    #expect(bench.admit(next, at: minutes(20)) == nil)
    // That token is in use now; going back is a change as well.
    #expect(bench.admit(first, at: minutes(21)) == .tooManyProviderTokenUpdates)
    #expect(bench.identity.tokenUses == [noon, minutes(20)])
  }

  @Test("R13: a token that is no good is no use of it") func badTokensDoNotCount() {
    var bench = Bench()
    #expect(bench.admit(sampleKey.token(issuedAt: minutes(1))) == .invalidProviderToken)
    #expect(bench.admit(sampleKey.token(issuedAt: noon)) == nil)
    #expect(bench.identity.tokenUses == [noon])
  }

  @Test("R13: the time scale shortens both times") func timeScale() {
    var bench = Bench()
    bench.limits = .init(timeScale: 600)
    let first = sampleKey.token(issuedAt: noon)
    #expect(bench.admit(first) == nil)
    let next = sampleKey.token(issuedAt: noon + .seconds(1))
    let short = Timestamp(microseconds: noon.microseconds + 1_999_999)
    #expect(bench.admit(next, at: short) == .tooManyProviderTokenUpdates)
    #expect(bench.admit(next, at: noon + .seconds(2)) == nil)
    #expect(bench.admit(next, at: noon + .seconds(7)) == nil)
    #expect(bench.admit(next, at: noon + .seconds(8)) == .expiredProviderToken)
  }

  @Test("R14: one team and one key to a connection") func binding() {
    var bench = Bench()
    let first = sampleKey.token(issuedAt: noon)
    #expect(bench.admit(first) == nil)
    #expect(bench.identity.team == "TEAMID1234")
    #expect(bench.admit(strangerKey.token(issuedAt: noon)) == .invalidProviderToken)
    #expect(
      bench.refusal("bearer \(strangerKey.token(issuedAt: noon))")?.violation
        == .foreignProviderToken)
    #expect(bench.admit(otherKey.token(issuedAt: noon), at: minutes(30)) == .unrelatedKeyIDInToken)
    #expect(bench.admit(first) == nil)
  }

  @Test("R14: a key of the other environment, and one of both") func environments() {
    let sandbox = APNsProviderKey(id: "KEYIDSANDB", team: "TEAMID1234", environment: .development)
    var bench = Bench([sandbox, sampleKey])
    #expect(bench.admit(sandbox.token(issuedAt: noon)) == .badEnvironmentKeyInToken)
    #expect(bench.admit(sampleKey.token(issuedAt: noon)) == nil)
    bench = Bench([sandbox])
    bench.environment = .development
    #expect(bench.admit(sandbox.token(issuedAt: noon)) == nil)
  }

  @Test("R14: bundles are bound with the first push; later ones need another connection")
  func bundles() {
    var bench = Bench()
    #expect(!bench.identity.allows(bundle: "b.TEAMID1234"))
    #expect(bench.admit(sampleKey.token(issuedAt: noon)) == nil)
    bench.teams.add(sampleKey, bundles: ["b.new"])
    #expect(bench.identity.allows(bundle: "b.TEAMID1234"))
    #expect(!bench.identity.allows(bundle: "b.new"))
    #expect(!bench.identity.allows(bundle: "b.TEAMID9999"))
    bench.identity = ConnectionIdentity()
    #expect(bench.admit(sampleKey.token(issuedAt: noon)) == nil)
    #expect(bench.identity.allows(bundle: "b.new"))
  }

  @Test("R14: a topic-specific key has its own bundles") func topicKeys() {
    let narrow = APNsProviderKey(id: "KEYIDNARRO", team: "TEAMID1234", bundles: ["b.one"])
    var bench = Bench([narrow])
    #expect(bench.admit(narrow.token(issuedAt: noon)) == nil)
    #expect(bench.identity.allows(bundle: "b.one"))
    #expect(!bench.identity.allows(bundle: "b.TEAMID1234"))
  }

  @Test("R15: once a token was expired, the connection is of no use") func wedged() {
    var bench = Bench()
    let old = sampleKey.token(issuedAt: noon)
    #expect(bench.admit(old) == nil)
    #expect(bench.admit(old, at: minutes(61)) == .expiredProviderToken)
    let fresh = sampleKey.token(issuedAt: minutes(61))
    let refusal = bench.refusal("bearer \(fresh)", at: minutes(61))
    #expect(refusal == Refusal(.expiredProviderToken, .usedWedgedConnection))
    bench.identity = ConnectionIdentity()
    #expect(bench.admit(fresh, at: minutes(61)) == nil)
  }

  @Test func whatWasFoundOfATokenIsForgottenWithTheKeys() {
    var teams = APNsTeams()
    let text = sampleKey.token(issuedAt: noon)[...]
    #expect(teams.token(text, []) == nil)
    teams.add(sampleKey)
    #expect(teams.token(text, [])?.keyID == "KEYID12345")
  }

  @Test func base64URLTakesOneFormOnly() {
    #expect(SimulatedJWT.bytes("") == [])
    #expect(SimulatedJWT.bytes("_-8") == [0xFF, 0xEF])
    for wrong in ["_-9", "AAAAA", "+/8", "AA=="] { #expect(SimulatedJWT.bytes(wrong) == nil) }
    for length in 0..<50 {
      let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ length) }
      #expect(SimulatedJWT.bytes(Base64URL.text(bytes)) == bytes)
    }
  }
}
