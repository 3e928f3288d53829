import CallAuth
import Crypto
import Foundation
import Testing

private let now: Int64 = 1_800_000_000

private func base64URL(_ bytes: some Sequence<UInt8>) -> String {
  Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
    .replacing("=", with: "")
}

/// A token with exactly this header and payload, signed with HMAC over `secret`.
private func forge(header: String, payload: String, secret: [UInt8]) -> String {
  let text = base64URL(header.utf8) + "." + base64URL(payload.utf8)
  let code = HMAC<SHA256>.authenticationCode(
    for: Array(text.utf8), using: SymmetricKey(data: secret))
  return text + "." + base64URL(code)
}

private let secret = [UInt8](0..<32)
private let pair = P256.Signing.PrivateKey()
private let otherSecret = [UInt8](100..<132)

private func keyFile() -> AppKeys {
  let secretText = Data(secret).base64EncodedString()
  let otherText = Data(otherSecret).base64EncodedString()
  let pem = pair.publicKey.pemRepresentation.replacing("\n", with: "\\n")
  let privatePEM = pair.pemRepresentation.replacing("\n", with: "\\n")
  let text = """
    {"apps":[
      {"app":"demo","keys":[
        {"kid":"k1","alg":"HS256","secret":"\(secretText)"},
        {"kid":"k2","alg":"ES256","publicKey":"\(pem)","privateKey":"\(privatePEM)"}]},
      {"app":"other","keys":[{"kid":"k1","alg":"HS256","secret":"\(otherText)"}]}
    ]}
    """
  return try! AppKeys(json: Array(text.utf8))
}

@Suite struct TokenTests {
  let keys = keyFile()
  var verifier: TokenVerifier { TokenVerifier(keys: keys) }

  private func payload(_ extra: String = "") -> String {
    #"{"app":"demo","sub":"ann","exp":\#(now + 60)\#(extra)}"#
  }

  @Test func onlyATokenOfNobodyWithAClaimThatIsTrueIsAServers() throws {
    func token(_ claims: String) -> String {
      forge(
        header: #"{"alg":"HS256","kid":"k1"}"#,
        payload: #"{"app":"demo","exp":\#(now + 60)\#(claims)}"#, secret: secret)
    }
    let server = token(#","server":true"#)
    #expect(try verifier.verifyServer(server, now: now).app == "demo")
    for claims in ["", #","server":false"#, #","server":"true""#, #","server":1"#] {
      let text = token(claims)
      #expect(throws: AuthFailure.notAccepted, "\(claims)") { try verifier.verify(text, now: now) }
      #expect(throws: AuthFailure.notAccepted, "\(claims)") {
        try verifier.verifyServer(text, now: now)
      }
    }
    // A token that names a user or a device is no server's, whatever else it holds.
    let user = token(#","server":true,"sub":"ann""#)
    #expect(try verifier.verify(user, now: now).user == "ann")
    #expect(throws: AuthFailure.users) { try verifier.verifyServer(user, now: now) }
    let device = token(#","server":true,"device":"phone""#)
    #expect(throws: AuthFailure.notAccepted) { try verifier.verifyServer(device, now: now) }
    // It is good for an hour, and the leeway of clocks.
    func expiring(_ seconds: Int64) -> String {
      forge(
        header: #"{"alg":"HS256","kid":"k1"}"#,
        payload: #"{"app":"demo","exp":\#(now + seconds),"server":true}"#, secret: secret)
    }
    #expect(throws: Never.self) { try verifier.verifyServer(expiring(3660), now: now) }
    #expect(throws: AuthFailure.tooLong(maximumSeconds: 3600)) {
      try verifier.verifyServer(expiring(3661), now: now)
    }
  }

  /// The library's JSON decoder traps on text that ends 512 brackets deep; signed or not, no token
  /// may stop an edge.
  @Test(arguments: [128, 129, 511, 512, 513, 1500])
  func deeplyNestedJSONIsRefused(depth: Int) {
    for bracket in ["[", "{\"a\":"] {
      let deep = "{\"a\":" + String(repeating: bracket, count: depth)
      for token in [
        forge(header: deep, payload: payload(), secret: secret),
        forge(header: #"{"alg":"HS256","kid":"k1"}"#, payload: deep, secret: secret),
      ] {
        #expect(throws: AuthFailure.notAccepted) { try verifier.verify(token, now: now) }
      }
    }
  }

  /// A number in a header, signed or not, that no integer can hold: what reads it as one traps.
  @Test(arguments: ["1e300", "-1e300", "9223372036854775808", "1e400", "[1e19]", "{\"a\":1e19}"])
  func numbersWithoutBoundAreNoHarm(number: String) {
    for header in [#"{"alg":"HS256","kid":"k1","x":\#(number)}"#, #"{"alg":\#(number)}"#] {
      _ = try? verifier.verify(
        forge(header: header, payload: payload(), secret: secret), now: now)
    }
    for claim in ["exp", "nbf", "iat", "x"] {
      _ = try? verifier.verify(
        forge(
          header: #"{"alg":"HS256","kid":"k1"}"#, payload: payload(#","\#(claim)":\#(number)"#),
          secret: secret), now: now)
    }
  }

  @Test(arguments: ["k1", "k2"])
  func mintedTokensAreAccepted(kid: String) async throws {
    let token = try keys.mintToken(
      kid: kid, app: "demo", user: "ann", device: "phone", lifetimeSeconds: 60, now: now)
    let claims = try verifier.verify(token, now: now + 59)
    #expect(claims.app == "demo" && claims.user == "ann" && claims.device == "phone")
    #expect(claims.expiresAtSeconds == now + 60)
    #expect(throws: AuthFailure.expired) { try verifier.verify(token, now: now + 60) }
  }

  @Test(arguments: [
    (#""Ann Lee""#, "Ann Lee"), (#""\u202eeeL\u0000""#, "eeL"), (#""""#, ""), ("null", ""),
    ("7", ""),
    (#"["Ann"]"#, ""), (#"{"given":"Ann"}"#, ""),
  ])
  func aNameIsShownAsFarAsItCanBe(claim: String, name: String) throws {
    let token = forge(
      header: #"{"alg":"HS256","kid":"k1"}"#, payload: payload(#","name":\#(claim)"#),
      secret: secret)
    #expect(try verifier.verify(token, now: now).name == name)
  }

  @Test func namesAreMinted() throws {
    func name(_ given: String?) throws -> String {
      let token = try keys.mintToken(
        app: "demo", user: "ann", name: given, lifetimeSeconds: 60, now: now)
      return try verifier.verify(token, now: now).name
    }
    #expect(try name("Ann Lee") == "Ann Lee")
    #expect(try name(nil) == "")
  }

  @Test func expiryIsWrittenAsAWholeNumber() async throws {
    let token = try keys.mintToken(app: "demo", user: "ann", lifetimeSeconds: 60, now: now)
    var part = String(token.split(separator: ".")[1])
      .replacing("-", with: "+").replacing("_", with: "/")
    while part.utf8.count % 4 != 0 { part += "=" }
    let text = String(decoding: try #require(Data(base64Encoded: part)), as: UTF8.self)
    #expect(text.contains(#""exp":\#(now + 60)"#) && !text.contains(".0"))
  }

  /// Signed by joserfc, a library for Python, with the same secret and the claims of `payload`.
  @Test func anotherLibrarysTokenIsAccepted() throws {
    let token =
      "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiIsImtpZCI6ImsxIn0"
      + ".eyJhcHAiOiJkZW1vIiwic3ViIjoiYW5uIiwiZXhwIjoxODAwMDAwMDYwfQ"
      + ".4Dm1bK2JhIjzBj6z3xTszC0KVZe3s2rNXWOqfvPr1YA"
    #expect(try verifier.verify(token, now: now).user == "ann")
  }

  @Test func fractionsOfSecondsInExpiryAreRoundedDown() throws {
    let token = forge(
      header: #"{"alg":"HS256","kid":"k1"}"#,
      payload: #"{"app":"demo","sub":"ann","exp":\#(now).9}"#, secret: secret)
    #expect(throws: AuthFailure.expired) { try verifier.verify(token, now: now) }
    #expect(try verifier.verify(token, now: now - 1).expiresAtSeconds == now)
  }

  // MARK: What is not accepted

  @Test func algorithmNoneIsNotAccepted() {
    for name in ["none", "None", "NONE", ""] {
      let text =
        base64URL(#"{"alg":"\#(name)","kid":"k1"}"#.utf8) + "." + base64URL(payload().utf8)
      for token in [text + ".", text, text + "." + base64URL([0])] {
        #expect(throws: AuthFailure.notAccepted) { try verifier.verify(token, now: now) }
      }
    }
  }

  /// An HMAC with the ES256 key's public text as its secret: the classic confusion.
  @Test func publicKeyIsNoSecret() {
    for bytes in [
      Array(pair.publicKey.pemRepresentation.utf8), Array(pair.publicKey.x963Representation),
      Array(pair.publicKey.rawRepresentation), Array(pair.publicKey.derRepresentation),
    ] {
      let token = forge(
        header: #"{"alg":"HS256","kid":"k2"}"#, payload: payload(), secret: bytes)
      #expect(throws: AuthFailure.notAccepted) { try verifier.verify(token, now: now) }
    }
  }

  @Test func algorithmMustBeThatOfTheKey() {
    for name in ["HS384", "HS512", "ES256", "hs256"] {
      let token = forge(
        header: #"{"alg":"\#(name)","kid":"k1"}"#, payload: payload(), secret: secret)
      #expect(throws: AuthFailure.notAccepted) { try verifier.verify(token, now: now) }
    }
  }

  @Test func headersThatAreNotUnderstoodAreNotAccepted() {
    for header in [
      #"{"alg":"HS256","kid":"k9"}"#, #"{"alg":"HS256"}"#, #"{"kid":"k1"}"#, "[]", "{",
      #"{"alg":"HS256","kid":"k1","crit":["exp"]}"#, #"{"alg":"HS256","kid":"k1","crit":true}"#,
    ] {
      let token = forge(header: header, payload: payload(), secret: secret)
      #expect(throws: AuthFailure.notAccepted) { try verifier.verify(token, now: now) }
    }
  }

  @Test func claimsMustBeWhole() {
    let long = String(repeating: "u", count: 129)
    for text in [
      #"{"sub":"ann","exp":\#(now + 60)}"#, #"{"app":"demo","exp":\#(now + 60)}"#,
      #"{"app":"demo","sub":"ann"}"#, #"{"app":"demo","sub":"ann","exp":"soon"}"#,
      #"{"app":"demo","sub":"ann","exp":1e300}"#, #"{"app":"demo","sub":"ann","exp":-1}"#,
      #"{"app":"demo","sub":"","exp":\#(now + 60)}"#,
      #"{"app":"demo","sub":"\#(long)","exp":\#(now + 60)}"#,
      #"{"app":"demo","sub":"a\nb","exp":\#(now + 60)}"#,
      #"{"app":"nobody","sub":"ann","exp":\#(now + 60)}"#,
      payload(#","device":"""#), payload(#","device":7"#),
      payload(#","device":"\#(String(repeating: "d", count: 65))""#),
      payload(#","nbf":\#(now + 61)"#), payload(#","nbf":1e300"#), payload(#","nbf":"soon""#),
      payload(#","iat":\#(now + 61)"#), payload(#","iat":1e300"#),
      payload(#","iat":"yesterday""#),
      "[]", "not json",
    ] {
      let token = forge(header: #"{"alg":"HS256","kid":"k1"}"#, payload: text, secret: secret)
      #expect(throws: AuthFailure.notAccepted, "\(text)") {
        try verifier.verify(token, now: now)
      }
    }
  }

  /// An issuer's clock may be ahead by a minute: devices do not show the same token again.
  @Test(arguments: [
    #","nbf":\#(now)"#, #","nbf":\#(now + 2)"#, #","nbf":\#(now + 60)"#, #","nbf":\#(now + 59).9"#,
    #","nbf":-5"#, #","iat":\#(now + 60)"#, #","iat":\#(now)"#,
  ])
  func issuersClockMayBeAhead(claims: String) throws {
    let token = forge(
      header: #"{"alg":"HS256","kid":"k1"}"#, payload: payload(claims), secret: secret)
    #expect(try verifier.verify(token, now: now).user == "ann")
  }

  /// The leeway is for the beginning only.
  @Test func theEndHasNoLeeway() {
    let token = forge(
      header: #"{"alg":"HS256","kid":"k1"}"#, payload: payload(), secret: secret)
    #expect(throws: AuthFailure.expired) { try verifier.verify(token, now: now + 60) }
  }

  /// The same kid in two apps: neither's secret signs for the other.
  @Test func keyOfAnotherAppIsNotAccepted() async throws {
    let token = forge(
      header: #"{"alg":"HS256","kid":"k1"}"#, payload: payload(), secret: otherSecret)
    #expect(throws: AuthFailure.notAccepted) { try verifier.verify(token, now: now) }
    let good = try keys.mintToken(app: "other", user: "ann", lifetimeSeconds: 60, now: now)
    #expect(try verifier.verify(good, now: now).app == "other")
  }

  @Test(arguments: ["k1", "k2"])
  func tamperedTokensAreNotAccepted(kid: String) async throws {
    let token = try keys.mintToken(
      kid: kid, app: "demo", user: "ann", lifetimeSeconds: 60, now: now)
    let parts = token.split(separator: ".").map(String.init)
    let other = base64URL(#"{"app":"demo","sub":"eve","exp":\#(now + 60)}"#.utf8)
    for text in [
      [parts[0], other, parts[2]], [parts[0], parts[1], String(parts[2].dropLast(4))],
      [parts[0], parts[1], ""], [parts[0], parts[1]], [parts[0], parts[1], parts[2], parts[2]],
      [parts[0], parts[1], String(parts[2].reversed())],
    ] {
      #expect(throws: AuthFailure.notAccepted) {
        try verifier.verify(text.joined(separator: "."), now: now)
      }
    }
  }

  /// An expired token says so only if it is genuine.
  @Test func forgedExpiredTokensAreNotAccepted() {
    let token = forge(
      header: #"{"alg":"HS256","kid":"k1"}"#, payload: payload(), secret: otherSecret)
    #expect(throws: AuthFailure.notAccepted) { try verifier.verify(token, now: now + 1000) }
  }

  @Test func whatIsNoTokenIsNotAccepted() {
    for text in [
      "", ".", "..", "...", "a.b.c", "Bearer x", String(repeating: "a.", count: 4000),
      String(repeating: "x", count: 1 << 20), "\u{0}\u{0}.\u{0}.\u{0}", "é.é.é",
    ] {
      #expect(throws: AuthFailure.notAccepted) { try verifier.verify(text, now: now) }
    }
  }

  @Test func tokenWithoutKidNeedsAnAppWithOneKey() {
    let text = #"{"app":"other","sub":"ann","exp":\#(now + 60)}"#
    let token = forge(header: #"{"alg":"HS256"}"#, payload: text, secret: otherSecret)
    #expect((try? verifier.verify(token, now: now))?.user == "ann")
  }

  @Test func mintingRefusesWhatCouldNotBeVerified() async {
    #expect(throws: TokenMinterError.self) {
      try keys.mintToken(app: "nobody", user: "ann", lifetimeSeconds: 60, now: now)
    }
    #expect(throws: TokenMinterError.self) {
      try keys.mintToken(app: "demo", user: "", lifetimeSeconds: 60, now: now)
    }
    #expect(throws: TokenMinterError.self) {
      try keys.mintToken(app: "demo", user: "ann", lifetimeSeconds: .max, now: now)
    }
  }
}
