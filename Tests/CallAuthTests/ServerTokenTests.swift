import CallAuth
import Foundation
import Testing

/// Tokens of an app's server. Such a token is no device's, and a user's token is not a server's.
@Suite struct ServerTokenTests {
  private let keys = AppKeys.generateDevelopment(apps: ["demo", "other"]).0
  private var verifier: TokenVerifier { TokenVerifier(keys: keys) }

  private func minted(app: String = "demo", lifetime: Int64 = 60) throws -> String {
    try keys.mintServerToken(app: app, lifetimeSeconds: lifetime, now: now)
  }

  @Test(arguments: ["dev-hs256", "dev-es256"]) func aServersTokenIsAccepted(kid: String) throws {
    let token = try keys.mintServerToken(kid: kid, app: "demo", lifetimeSeconds: 60, now: now)
    let claims = try verifier.verifyServer(token, now: now)
    #expect(claims.app == "demo" && claims.expiresAtSeconds == now + 60)
    #expect(try verifier.verifyAny(token, now: now) == .server(claims))
  }

  @Test func eachKindIsRefusedWhereTheOtherIsNeeded() throws {
    let server = try minted()
    #expect(throws: AuthFailure.servers) { try verifier.verify(server, now: now) }
    let user = try keys.mintToken(app: "demo", user: "ann", lifetimeSeconds: 60, now: now)
    #expect(throws: AuthFailure.users) { try verifier.verifyServer(user, now: now) }
    let authority = TokenAuthority(keys: keys)
    #expect(throws: AuthFailure.servers) { try authority.verify(server, now: now) }
    #expect(throws: AuthFailure.users) { try authority.verifyServer(user, now: now) }
  }

  @Test func itExpiresAndLivesForAnHourAtMost() throws {
    let token = try minted()
    #expect(throws: Never.self) { try verifier.verifyServer(token, now: now + 59) }
    #expect(throws: AuthFailure.expired) { try verifier.verifyServer(token, now: now + 60) }
    #expect(throws: TokenMinterError.self) { try minted(lifetime: 3601) }
    #expect(throws: TokenMinterError.self) { try minted(lifetime: 0) }
    #expect(throws: TokenMinterError.self) { try minted(app: "nobody") }
    let hour = try minted(lifetime: 3600)
    #expect(throws: Never.self) { try verifier.verifyServer(hour, now: now) }
  }

  /// A shorter age of all tokens holds for these, too.
  @Test func theNodesMaximumAgeHolds() throws {
    let short = TokenVerifier(keys: keys, maximumAgeSeconds: 600)
    let token = try minted(lifetime: 3000)
    #expect(throws: AuthFailure.tooLong(maximumSeconds: 600)) {
      try short.verifyServer(token, now: now)
    }
  }

  @Test func aTokenOfAnotherAppsKeyIsRefused() throws {
    let other = AppKeys.generateDevelopment(app: "demo").0
    let token = try other.mintServerToken(app: "demo", lifetimeSeconds: 60, now: now)
    #expect(throws: AuthFailure.notAccepted) { try verifier.verifyServer(token, now: now) }
    #expect(throws: AuthFailure.notAccepted) { try verifier.verify(token, now: now) }
  }

  @Test func theEndOfAKeyEndsIt() throws {
    let authority = TokenAuthority(keys: keys)
    let token = try minted()
    #expect(throws: Never.self) { try authority.verifyServer(token, now: now) }
    // No user's revocation concerns it.
    authority.revoke(app: "demo", user: "ann", atSeconds: now, now: now)
    #expect(throws: Never.self) { try authority.verifyServer(token, now: now) }
    authority.replace(keys: AppKeys.generateDevelopment(app: "demo").0)
    #expect(throws: AuthFailure.notAccepted) { try authority.verifyServer(token, now: now) }
  }
}
