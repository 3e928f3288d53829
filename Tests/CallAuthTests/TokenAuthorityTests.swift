import CallAuth
import Testing

private let day: Int64 = 86_400
private let keys = try! appKeys(keyFile())

/// A good token of ann with these claims beside `app` and `sub`.
private func token(_ claims: String, user: String = "ann") -> String {
  forge(#"{"app":"demo","sub":"\#(user)",\#(claims)}"#)
}

@Suite struct TokenAgeTests {
  private let verifier = TokenVerifier(keys: keys, maximumAgeSeconds: day)
  private let tooLong = AuthFailure.tooLong(maximumSeconds: day)

  @Test func anEndThatIsTooFarAwayIsRefused() throws {
    #expect(try verifier.verify(token(#""exp":\#(now + day)"#), now: now).user == "ann")
    // An issuer's clock may be ahead by a minute.
    #expect(try verifier.verify(token(#""exp":\#(now + day + 60)"#), now: now).user == "ann")
    for seconds in [day + 61, 10 * 365 * day, 9_000_000_000_000_000 - now] {
      let text = token(#""iat":\#(now),"exp":\#(now + seconds)"#)
      #expect(throws: tooLong) { try verifier.verify(text, now: now) }
    }
  }

  @Test func whatWasIssuedTooLongAgoIsRefused() throws {
    let exp = #""exp":\#(now + 60)"#
    let good = token(#""iat":\#(now - day),\#(exp)"#)
    #expect(try verifier.verify(good, now: now).issuedAtSeconds == now - day)
    for iat in ["\(now - day - 61)", "0", "-1e300"] {
      #expect(throws: tooLong) { try verifier.verify(token(#""iat":\#(iat),\#(exp)"#), now: now) }
    }
  }

  @Test func withoutIatATokenIsAsOldAsItMayBe() throws {
    let claims = try verifier.verify(token(#""exp":\#(now + 60)"#), now: now)
    #expect(claims.issuedAtSeconds == now + 60 - day)
  }

  @Test func anExpiredTokenIsExpiredHoweverLongItWasGood() {
    let text = token(#""iat":\#(now - 10 * day),"exp":\#(now)"#)
    #expect(throws: AuthFailure.expired) { try verifier.verify(text, now: now) }
  }

  @Test func mintedTokensSayWhenTheyWereIssued() async throws {
    let text = try keys.mintToken(app: "demo", user: "ann", lifetimeSeconds: 60, now: now)
    #expect(try verifier.verify(text, now: now + 30).issuedAtSeconds == now)
  }
}

@Suite struct RevocationTests {
  private let tokens = TokenAuthority(keys: keys, maximumAgeSeconds: day)

  private func issued(_ at: Int64, user: String = "ann") -> String {
    token(#""iat":\#(at),"exp":\#(now + 3600)"#, user: user)
  }

  @Test func whatWasIssuedBeforeDoesNotCount() throws {
    let before = tokens.generation
    tokens.revoke(app: "demo", user: "ann", atSeconds: now, now: now)
    #expect(tokens.generation > before && tokens.revocationCount == 1)
    for at in [now - 1, now] {
      #expect(throws: AuthFailure.revoked) { try tokens.verify(issued(at), now: now) }
    }
    #expect(try tokens.verify(issued(now + 1), now: now + 1).user == "ann")
    #expect(try tokens.verify(issued(now - 1, user: "bob"), now: now).user == "bob")
  }

  @Test func withoutIatATokenDoesNotCount() {
    tokens.revoke(app: "demo", user: "ann", atSeconds: now - 60, now: now)
    #expect(throws: AuthFailure.revoked) {
      try tokens.verify(token(#""exp":\#(now + 3600)"#), now: now)
    }
  }

  @Test func anOlderRevocationTakesNothingBack() {
    tokens.revoke(app: "demo", user: "ann", atSeconds: now, now: now)
    let before = tokens.generation
    tokens.revoke(app: "demo", user: "ann", atSeconds: now - 100, now: now)
    tokens.revoke(app: "demo", user: "ann", atSeconds: now, now: now)
    #expect(tokens.generation == before)
    #expect(throws: AuthFailure.revoked) { try tokens.verify(issued(now), now: now) }
  }

  /// The Kelvin sign and the letter K are the same to Swift's strings.
  @Test func usersAreToldApartByTheirBytes() throws {
    tokens.revoke(app: "demo", user: "\u{212A}im", atSeconds: now, now: now)
    #expect(try tokens.verify(issued(now, user: "Kim"), now: now).user == "Kim")
    #expect(throws: AuthFailure.revoked) {
      try tokens.verify(issued(now, user: "\u{212A}im"), now: now)
    }
  }

  @Test func whatIsRelliedOnIsLookedAtAgain() throws {
    let claims = try tokens.verify(issued(now - 10), now: now)
    func isInForce() -> Bool {
      tokens.isInForce(
        app: claims.app, user: claims.user, issuedAtSeconds: claims.issuedAtSeconds,
        keyNumber: claims.keyNumber)
    }
    #expect(isInForce())
    tokens.revoke(app: "demo", user: "ann", atSeconds: now - 11, now: now)
    #expect(isInForce())
    tokens.revoke(app: "demo", user: "ann", atSeconds: now - 10, now: now)
    #expect(!isInForce())
  }

  /// Keys that are taken out take with them what they signed; a new key of the same name does not bring it
  /// back, and what was revoked stays so.
  @Test func newKeysKeepWhatWasRevoked() throws {
    let claims = try tokens.verify(issued(now), now: now)
    tokens.revoke(app: "demo", user: "bob", atSeconds: now, now: now)
    let other = keyEntry("k1", [UInt8](repeating: 9, count: 32))
    tokens.replace(keys: try appKeys(keyFile(other)))
    #expect(
      !tokens.isInForce(
        app: "demo", user: "ann", issuedAtSeconds: now, keyNumber: claims.keyNumber))
    #expect(throws: AuthFailure.notAccepted) { try tokens.verify(issued(now), now: now) }
    tokens.replace(keys: keys)
    #expect(throws: AuthFailure.revoked) { try tokens.verify(issued(now, user: "bob"), now: now) }
  }

  @Test func theTableForgetsWhatMeansNothing() {
    for index in 0..<5000 {
      let at = now + Int64(index) * 1000
      tokens.revoke(app: "demo", user: "user-\(index)", atSeconds: at, now: at)
    }
    // A day holds 87 of them.
    #expect(tokens.revocationCount < 1200)
  }
}
