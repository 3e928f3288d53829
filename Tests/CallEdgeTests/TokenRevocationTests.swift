import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

/// Sessions end when the keys or an operator say so.
@Suite struct TokenRevocationTests {
  private func token(
    _ edge: EdgeFixture, _ user: String = "ann", issued: Int64 = wallSeconds
  ) async throws -> String {
    try edge.keys.mintToken(app: "demo", user: user, lifetimeSeconds: 3600, now: issued)
  }

  @Test func aKeyThatIsTakenOutTakesItsSessionsAlong() async throws {
    try await EdgeFixture.run { edge in
      let keys = edge.configuration.tokens.keys
      let phone = try await edge.device("ann", "phone")
      // Upgraded, and not attached yet.
      let waiting = try await edge.client()
      try await waiting.upgrade(token: try await edge.token("bob"))
      let (others, _) = AppKeys.generateDevelopment(app: "demo")
      edge.configuration.tokens.replace(keys: others)
      #expect(try await phone.client.closeCode() == 4009)
      #expect(try await waiting.closeCode() == 4009)
      let back = try await edge.client()
      try await back.upgrade()
      back.say(
        1, .attach(AttachRequest(token: try await edge.token("ann"), device: "phone")))
      #expect(try await back.errorReply() == (1, .notAccepted))
      edge.configuration.tokens.replace(keys: keys)
      _ = try await edge.device("ann", "phone")
    }
  }

  @Test func sessionsOutliveKeysThatStay() async throws {
    try await EdgeFixture.run { edge in
      let phone = try await edge.device("ann", "phone")
      edge.configuration.tokens.replace(keys: edge.configuration.tokens.keys)
      let other = try await edge.device("ann", "tablet")
      edge.configuration.tokens.revoke(
        app: "demo", user: "bob", atSeconds: wallSeconds, now: wallSeconds)
      let bob = try await edge.client()
      try await bob.upgrade()
      bob.say(1, .attach(AttachRequest(token: try await edge.token("bob"), device: "phone")))
      #expect(try await bob.errorReply() == (1, .revoked))
      for client in [phone.client, other.client] {
        client.say(2, .ping)
        #expect(try await client.reply() == (2, .done))
      }
    }
  }

  @Test func aRevocationEndsSessionsAndTokens() async throws {
    try await EdgeFixture.run { edge in
      let tokens = edge.configuration.tokens
      let phone = try await edge.device("ann", "phone")
      let bob = try await edge.device("bob", "phone")
      let old = try await token(edge)
      tokens.revoke(app: "demo", user: "ann", atSeconds: wallSeconds, now: wallSeconds)
      #expect(try await phone.client.closeCode() == 4009)
      let http = try await edge.client()
      let answer = try await http.request("DELETE", "/v1/devices/phone", token: old)
      #expect(answer.status == 401 && answer.errorCode == 204)
      // A token that is issued later is good.
      let back = try await edge.client()
      try await back.attach(token: try await token(edge, issued: wallSeconds + 1), device: "phone")
      bob.client.say(2, .ping)
      #expect(try await bob.client.reply() == (2, .done))
      #expect(edge.metric("callmesh_edge_closes_total{reason=\"token_revoked\"}") == 1)
    }
  }

  @Test func aRenewedSessionRestsOnItsNewToken() async throws {
    try await EdgeFixture.run {
      $0.eventLoops = 1
    } _: { edge in
      let phone = try await edge.device("ann", "phone")
      let tablet = try await edge.device("ann", "tablet")
      phone.client.say(2, .renew(token: try await token(edge, issued: wallSeconds + 30)))
      #expect(try await phone.client.reply() == (2, .done))
      let tokens = edge.configuration.tokens
      tokens.revoke(app: "demo", user: "ann", atSeconds: wallSeconds + 29, now: wallSeconds)
      // All sessions of the loop were looked at.
      #expect(try await tablet.client.closeCode() == 4009)
      try await phone.client.staysSilent(3)
      tokens.revoke(app: "demo", user: "ann", atSeconds: wallSeconds + 30, now: wallSeconds)
      #expect(try await phone.client.closeCode() == 4009)
    }
  }
}
