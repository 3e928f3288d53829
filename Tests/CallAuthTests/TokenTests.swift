import CallAuth
import Crypto
import Foundation
import Testing

private let pair = P256.Signing.PrivateKey()
private let otherSecret = [UInt8](100..<132)

/// `demo` with one key of each kind, and `other` with a key of the same name.
private let keys: AppKeys = {
  let pem = pair.publicKey.pemRepresentation.replacing("\n", with: "\\n")
  let privatePEM = pair.pemRepresentation.replacing("\n", with: "\\n")
  let text = """
    {"apps":[
      {"app":"demo","keys":[
        \(keyEntry()),
        {"kid":"k2","alg":"ES256","publicKey":"\(pem)","privateKey":"\(privatePEM)"}]},
      {"app":"other","keys":[\(keyEntry("k1", otherSecret))]}
    ]}
    """
  return try! appKeys(text)
}()

private func payload(_ extra: String = "") -> String {
  #"{"app":"demo","sub":"ann","exp":\#(now + 60)\#(extra)}"#
}

@Suite struct TokenTests {
  private let verifier = TokenVerifier(keys: keys)

  private func refuses(
    _ token: String, at time: Int64 = now, as failure: AuthFailure = .notAccepted,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(throws: failure, "\(token.prefix(200))", sourceLocation: sourceLocation) {
      try verifier.verify(token, now: time)
    }
  }

  @Test func onlyATokenOfNobodyWithAClaimThatIsTrueIsAServers() throws {
    func token(_ claims: String, seconds: Int64 = 60) -> String {
      forge(#"{"app":"demo","exp":\#(now + seconds)\#(claims)}"#)
    }
    func isRefusedAsAServers(_ token: String, _ failure: AuthFailure = .notAccepted) {
      #expect(throws: failure, "\(token)") { try verifier.verifyServer(token, now: now) }
    }
    #expect(try verifier.verifyServer(token(#","server":true"#), now: now).app == "demo")
    for claims in ["", #","server":false"#, #","server":"true""#, #","server":1"#] {
      refuses(token(claims))
      isRefusedAsAServers(token(claims))
    }
    // A token that names a user or a device is no server's, whatever else it holds.
    let user = token(#","server":true,"sub":"ann""#)
    #expect(try verifier.verify(user, now: now).user == "ann")
    isRefusedAsAServers(user, .users)
    isRefusedAsAServers(token(#","server":true,"device":"phone""#))
    // It is good for an hour, and the leeway of clocks.
    let longest = token(#","server":true"#, seconds: 3660)
    #expect(throws: Never.self) { try verifier.verifyServer(longest, now: now) }
    isRefusedAsAServers(token(#","server":true"#, seconds: 3661), .tooLong(maximumSeconds: 3600))
  }

  /// The library's JSON decoder traps on text that ends 512 brackets deep; signed or not, no token
  /// may stop an edge.
  @Test(arguments: [128, 129, 511, 512, 513, 1500]) func deeplyNestedJSONIsRefused(depth: Int) {
    for bracket in ["[", "{\"a\":"] {
      let deep = "{\"a\":" + String(repeating: bracket, count: depth)
      refuses(forge(payload(), header: deep))
      refuses(forge(deep))
    }
  }

  /// A number in a header, signed or not, that no integer can hold: what reads it as one traps.
  @Test(arguments: ["1e300", "-1e300", "9223372036854775808", "1e400", "[1e19]", "{\"a\":1e19}"])
  func numbersWithoutBoundAreNoHarm(number: String) {
    for header in [#"{"alg":"HS256","kid":"k1","x":\#(number)}"#, #"{"alg":\#(number)}"#] {
      _ = try? verifier.verify(forge(payload(), header: header), now: now)
    }
    for claim in ["exp", "nbf", "iat", "x"] {
      _ = try? verifier.verify(forge(payload(#","\#(claim)":\#(number)"#)), now: now)
    }
  }

  @Test(arguments: ["k1", "k2"]) func mintedTokensAreAccepted(kid: String) throws {
    let token = try keys.mintToken(
      kid: kid, app: "demo", user: "ann", device: "phone", lifetimeSeconds: 60, now: now)
    let claims = try verifier.verify(token, now: now + 59)
    #expect(claims.app == "demo" && claims.user == "ann" && claims.device == "phone")
    #expect(claims.expiresAtSeconds == now + 60)
    // The leeway of clocks is for the beginning only.
    refuses(token, at: now + 60, as: .expired)
    // The number is whole.
    let text = String(
      decoding: decoded(base64URL: String(token.split(separator: ".")[1])), as: UTF8.self)
    #expect(text.contains(#""exp":\#(now + 60)"#) && !text.contains(".0"))
  }

  @Test(arguments: [
    (#""Ann Lee""#, "Ann Lee"), (#""\u202eeeL\u0000""#, "eeL"), (#""""#, ""), ("null", ""),
    ("7", ""), (#"["Ann"]"#, ""), (#"{"given":"Ann"}"#, ""),
  ])
  func aNameIsShownAsFarAsItCanBe(claim: String, name: String) throws {
    #expect(try verifier.verify(forge(payload(#","name":\#(claim)"#)), now: now).name == name)
  }

  @Test(arguments: ["Ann Lee", nil]) func namesAreMinted(name: String?) throws {
    let token = try keys.mintToken(
      app: "demo", user: "ann", name: name, lifetimeSeconds: 60, now: now)
    #expect(try verifier.verify(token, now: now).name == name ?? "")
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
    let token = forge(#"{"app":"demo","sub":"ann","exp":\#(now).9}"#)
    refuses(token, as: .expired)
    #expect(try verifier.verify(token, now: now - 1).expiresAtSeconds == now)
  }

  /// An issuer's clock may be ahead by a minute: devices do not show the same token again.
  @Test(arguments: [
    #","nbf":\#(now)"#, #","nbf":\#(now + 2)"#, #","nbf":\#(now + 60)"#, #","nbf":\#(now + 59).9"#,
    #","nbf":-5"#, #","iat":\#(now + 60)"#, #","iat":\#(now)"#,
  ])
  func issuersClockMayBeAhead(claims: String) throws {
    #expect(try verifier.verify(forge(payload(claims)), now: now).user == "ann")
  }

  // MARK: What is not accepted

  @Test func algorithmNoneIsNotAccepted() {
    for name in ["none", "None", "NONE", ""] {
      let text =
        base64URL(#"{"alg":"\#(name)","kid":"k1"}"#.utf8) + "." + base64URL(payload().utf8)
      for token in [text + ".", text, text + "." + base64URL([0])] { refuses(token) }
    }
  }

  /// An HMAC with the ES256 key's public text as its secret: the classic confusion.
  @Test func publicKeyIsNoSecret() {
    for bytes in [
      Array(pair.publicKey.pemRepresentation.utf8), Array(pair.publicKey.x963Representation),
      Array(pair.publicKey.rawRepresentation), Array(pair.publicKey.derRepresentation),
    ] { refuses(forge(payload(), header: #"{"alg":"HS256","kid":"k2"}"#, secret: bytes)) }
  }

  @Test(arguments: [
    // Not the algorithm of the key.
    #"{"alg":"HS384","kid":"k1"}"#, #"{"alg":"HS512","kid":"k1"}"#, #"{"alg":"ES256","kid":"k1"}"#,
    #"{"alg":"hs256","kid":"k1"}"#,
    // Not understood.
    #"{"alg":"HS256","kid":"k9"}"#, #"{"alg":"HS256"}"#, #"{"kid":"k1"}"#, "[]", "{",
    #"{"alg":"HS256","kid":"k1","crit":["exp"]}"#, #"{"alg":"HS256","kid":"k1","crit":true}"#,
  ]) func headersThatAreNotAccepted(header: String) {
    refuses(forge(payload(), header: header))
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
      payload(#","iat":"yesterday""#), "[]", "not json",
    ] { refuses(forge(text)) }
  }

  /// The same kid in two apps: neither's secret signs for the other. An expired token says so only if it is genuine.
  @Test func keyOfAnotherAppIsNotAccepted() throws {
    let token = forge(payload(), secret: otherSecret)
    refuses(token)
    refuses(token, at: now + 1000)
    let good = try keys.mintToken(app: "other", user: "ann", lifetimeSeconds: 60, now: now)
    #expect(try verifier.verify(good, now: now).app == "other")
  }

  @Test(arguments: ["k1", "k2"]) func tamperedTokensAreNotAccepted(kid: String) throws {
    let token = try keys.mintToken(
      kid: kid, app: "demo", user: "ann", lifetimeSeconds: 60, now: now)
    let parts = token.split(separator: ".").map(String.init)
    let other = base64URL(#"{"app":"demo","sub":"eve","exp":\#(now + 60)}"#.utf8)
    for text in [
      [parts[0], other, parts[2]], [parts[0], parts[1], String(parts[2].dropLast(4))],
      [parts[0], parts[1], ""], [parts[0], parts[1]], [parts[0], parts[1], parts[2], parts[2]],
      [parts[0], parts[1], String(parts[2].reversed())],
    ] { refuses(text.joined(separator: ".")) }
  }

  @Test func whatIsNoTokenIsNotAccepted() {
    for text in [
      "", ".", "..", "...", "a.b.c", "Bearer x", String(repeating: "a.", count: 4000),
      String(repeating: "x", count: 1 << 20), "\u{0}\u{0}.\u{0}.\u{0}", "é.é.é",
    ] { refuses(text) }
  }

  @Test func tokenWithoutKidNeedsAnAppWithOneKey() throws {
    let text = #"{"app":"other","sub":"ann","exp":\#(now + 60)}"#
    let token = forge(text, header: #"{"alg":"HS256"}"#, secret: otherSecret)
    #expect(try verifier.verify(token, now: now).user == "ann")
  }

  @Test(
    arguments: [("nobody", "ann", 60), ("demo", "", 60), ("demo", "ann", .max)]
      as [(String, String, Int64)])
  func mintingRefusesWhatCouldNotBeVerified(app: String, user: String, seconds: Int64) {
    #expect(throws: TokenMinterError.self) {
      try keys.mintToken(app: app, user: user, lifetimeSeconds: seconds, now: now)
    }
  }
}

/// The log tells why a token is not accepted.
@Suite struct TokenFaultTests {
  private func fault(in token: String) throws -> TokenFault? {
    TokenAuthority(keys: try appKeys(keyFile())).fault(in: token, now: now)
  }

  @Test(arguments: [
    (#"{"app":"demo","sub":42,"exp":1800000600}"#, TokenFault.Part.sub, "sub has another type"),
    (#"{"app":"demo","sub":"","exp":1800000600}"#, .sub, "sub is no user id"),
    (#"{"app":"demo","exp":1800000600}"#, .sub, "sub is no user id"),
    (#"{"app":"other","sub":"ann","exp":1800000600}"#, .app, "none of the file of keys"),
    (#"{"sub":"ann","exp":1800000600}"#, .app, "app is missing"),
    (#"{"app":"demo","sub":"ann"}"#, .exp, "exp is missing"),
    (#"{"app":"demo","sub":"ann","exp":"soon"}"#, .exp, "a number of seconds"),
    (#"{"app":"demo","sub":"ann","exp":1799999990}"#, .exp, "expired 10 s ago"),
    (#"{"app":"demo","sub":"ann","exp":1800000600000}"#, .lifetime, "longer than"),
    (#"{"app":"demo","sub":"ann","exp":1800000600,"nbf":1800000300}"#, .nbf, "ahead of this clock"),
    (#"{"app":"demo","sub":"ann","exp":1800000600,"iat":1800000300}"#, .iat, "ahead of this clock"),
    (
      #"{"app":"demo","sub":"ann","exp":1800000600,"device":7}"#, .device, "device has another type"
    ),
    (#"["app"]"#, .form, "payload"),
  ])
  func claims(_ payload: String, _ part: TokenFault.Part, _ text: String) throws {
    let fault = try fault(in: forge(payload))
    #expect(fault?.part == part)
    #expect(fault?.text.contains(text) == true, "\(fault?.text ?? "")")
    #expect(fault?.text.contains("ann") == false)
  }

  @Test func theRest() throws {
    let good = #"{"app":"demo","sub":"ann","exp":1800000600}"#
    #expect(try fault(in: forge(good)) == nil)
    let unsigned = forge(good).split(separator: ".").prefix(2).joined(separator: ".")
    #expect(try fault(in: unsigned + "." + base64URL([1, 2, 3]))?.part == .signature)
    for (header, part) in [
      (#"{"alg":"none","kid":"k1"}"#, TokenFault.Part.header),
      (#"{"alg":"HS256","kid":"k9"}"#, .key), (#"{"alg":"HS256","crit":[]}"#, .header),
      ("{}", .header),
    ] { #expect(try fault(in: forge(good, header: header))?.part == part, "\(header)") }
    #expect(try fault(in: "x.y")?.part == .form)
    let long = String(repeating: "a", count: 5000)
    #expect(try fault(in: long)?.text.contains("4096") == true)
  }
}
