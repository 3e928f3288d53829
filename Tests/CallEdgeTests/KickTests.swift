import CallAuth
import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Foundation
import Testing

/// Operators end sessions.
@Suite struct KickTests {
  private func kick(_ edge: EdgeFixture, _ request: KickRequest) async throws -> KickAnswer {
    let answer = try await edge.bus.request(
      edge.shards.subjects.order("kick", by: "ann"),
      Array(try JSONEncoder().encode(request)), timeout: patience)
    return try JSONDecoder().decode(KickAnswer.self, from: Data(answer.bytes))
  }

  private func closeCode(_ client: RawClient) async throws -> Int {
    while true {
      if let code = try await client.frame().closeCode { return code }
    }
  }

  private func stays(_ client: RawClient) async throws {
    client.say(9, .ping)
    #expect(try await client.reply() == (9, .done))
  }

  @Test func allSessionsOfAUserEnd() async throws {
    try await EdgeFixture.run { edge in
      let phone = try await edge.device("ann", "phone")
      let tablet = try await edge.device("ann", "tablet")
      let bob = try await edge.device("bob", "phone")
      let answer = try await kick(edge, KickRequest(app: "demo", user: "ann"))
      #expect(answer == KickAnswer(node: "edge-1", sessions: 2))
      #expect(try await closeCode(phone.client) == 4011)
      #expect(try await closeCode(tablet.client) == 4011)
      // As a session that broke: it may come back, and calls wait for it.
      for _ in 0..<2 {
        let farewell = try await edge.shards.next {
          if case .sessionClosed = $0.body { true } else { false }
        }
        #expect(farewell.body == .sessionClosed(graceful: false))
      }
      try await stays(bob.client)
      _ = try await edge.device("ann", "phone")
    }
  }

  @Test func aDeviceAloneCanBeKicked() async throws {
    try await EdgeFixture.run { edge in
      let phone = try await edge.device("ann", "phone")
      let tablet = try await edge.device("ann", "tablet")
      let request = KickRequest(app: "demo", user: "ann", device: "tablet")
      #expect(try await kick(edge, request).sessions == 1)
      #expect(try await closeCode(tablet.client) == 4011)
      try await stays(phone.client)
    }
  }

  @Test func nobodyOfThatNameIsNobody() async throws {
    try await EdgeFixture.run { edge in
      let phone = try await edge.device("ann", "phone")
      #expect(try await kick(edge, KickRequest(app: "other", user: "ann")).sessions == 0)
      #expect(try await kick(edge, KickRequest(app: "demo", user: "an")).sessions == 0)
      // A message that is no order is not answered, and does nothing.
      edge.bus.publish(edge.shards.subjects.order("kick", by: "ann"), Array("{".utf8))
      try await stays(phone.client)
    }
  }

  /// The order that goes with a revocation works before the list says so, and counts what the list has
  /// ended before.
  @Test(arguments: [false, true])
  func aRevocationCountsItsSessions(listComesFirst: Bool) async throws {
    try await EdgeFixture.run { edge in
      let phone = try await edge.device("ann", "phone")
      let tablet = try await edge.device("ann", "tablet")
      let bob = try await edge.device("bob", "phone")
      if listComesFirst {
        edge.configuration.tokens.revoke(
          app: "demo", user: "ann", atSeconds: wallSeconds, now: wallSeconds)
        #expect(try await closeCode(phone.client) == 4009)
      }
      let request = KickRequest(app: "demo", user: "ann", revokedAtSeconds: wallSeconds)
      #expect(try await kick(edge, request).sessions == 2)
      if !listComesFirst { #expect(try await closeCode(phone.client) == 4009) }
      #expect(try await closeCode(tablet.client) == 4009)
      try await stays(bob.client)
      // Not twice.
      #expect(try await kick(edge, request).sessions == 0)
      let back = try await edge.client()
      try await back.upgrade()
      back.say(1, .attach(.init(token: try await edge.token("ann"), device: "phone")))
      #expect(try await back.errorReply() == (1, .revoked))
    }
  }
}
