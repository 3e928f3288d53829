import CallAuth
import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallWire
import Foundation
import Synchronization
import Testing

extension Trait where Self == EdgeTrait {
  /// An edge whose time passes in leaps.
  fileprivate static var leapingEdge: EdgeTrait {
    .stillEdge {
      $0.cutOffAfter = .seconds(100_000)
      $0.pingInterval = .seconds(600)
    }
  }
}

/// Sessions end with their tokens.
@Suite struct TokenSessionTests {
  /// A phone of ann's.
  private func phone(
    lifetimeSeconds: Int64 = 100, codec: DeviceCodec = .protobuf
  ) async throws -> RawClient {
    let client = try await edge.socket(codec)
    let token = try edge.token("ann", lifetimeSeconds: lifetimeSeconds)
    try await client.attach(AttachRequest(token: token, device: "phone"))
    return client
  }

  /// Until its token expires in `seconds`, the device is notified of nothing, and then of that.
  private func expectNotice(in seconds: Int, _ client: RawClient) async throws {
    edge.pass(.seconds(seconds - 1))
    #expect(try await client.ask(90, .ping) == .done)
    edge.pass(.seconds(1))
    #expect(try await client.notice().kind == .tokenExpires)
  }

  /// The session is warned in time. It ends when its token does, like one whose socket broke.
  @Test(.leapingEdge, arguments: DeviceCodec.allCases)
  func aSessionEndsWithItsToken(codec: DeviceCodec) async throws {
    let client = try await phone(codec: codec)
    // A quarter of its life before.
    try await expectNotice(in: 75, client)
    edge.pass(.seconds(25))
    #expect(try await client.closeCode() == 4008)
    #expect(try await edge.shards.next(\.isEnd).body == .sessionClosed(graceful: false))
  }

  @Test(.leapingEdge) func aLongTokenIsAnnouncedAMinuteBefore() async throws {
    let client = try await phone(lifetimeSeconds: 3600)
    try await expectNotice(in: 3600 - 60, client)
  }

  private static let query = ClientCommand.call(CallAddress(call: CallID(high: 1, low: 2)), .query)

  /// Coordinators take commands by a ticket, which ends with the token: a new token needs a new ticket. But one may know
  /// of a revocation before the edge does; then nothing changes.
  @Test(
    .leapingEdge,
    arguments: [(.json, false), (.protobuf, false), (.protobuf, true)] as [(DeviceCodec, Bool)])
  func whoRenewsGetsANewTicket(codec: DeviceCodec, isRefused: Bool) async throws {
    let now = UInt32(wallSeconds)
    let first = SessionTicket(high: 1, low: 1, expires: now + 100, issued: now)
    let second = SessionTicket(high: 2, low: 2, expires: now + 300, issued: now)
    edge.shards.follow { command in
      guard let attach = command.attach else { return FakeShards.agreeing(command) }
      if attach.announce, isRefused { return .error(CallError(.revoked)) }
      return .attached(forCall: nil, ticket: attach.announce ? second : first)
    }
    let client = try await phone(codec: codec)
    let token = try edge.token("ann", device: "phone", lifetimeSeconds: 300)
    let reply = try await client.ask(2, .renew(token: token))
    #expect(isRefused ? reply.code == .revoked : reply == .done)
    // The same session, so that nothing of it changes.
    let renewal = try await edge.shards.next { $0.credential == .token(token) }
    #expect(renewal.isAnnouncement && renewal.request == 2)
    guard case .call = try await client.ask(3, Self.query) else {
      throw TestFailure("no state")
    }
    let query = try await edge.shards.next { $0.request == 3 }
    #expect(query.credential == .ticket(isRefused ? first : second))
    // The notice comes for the token that counts, and not for the other one.
    try await expectNotice(in: isRefused ? 75 : 240, client)
  }

  /// A token that does not fit changes nothing: the session goes on with the one that it has.
  @Test(.leapingEdge) func whatDoesNotFitIsRefused() async throws {
    let client = try await phone()
    let cases: [(String, CallError.Code)] = [
      (try edge.token("bob"), .forbidden),
      (try edge.token("ann", device: "tablet"), .notAccepted),
      ("a.b.c", .notAccepted), ("", .notAccepted), (try edge.expiredToken(), .expired),
      (try edge.token("ann", lifetimeSeconds: 30 * 86_400), .tokenTooLong),
    ]
    for (id, (token, code)) in zip(UInt64(2)..., cases) {
      #expect(try await client.ask(id, .renew(token: token)).code == code)
    }
    edge.pass(.seconds(100))
    // Both come in one look, or the notice before.
    #expect(try await client.closeCode() == 4008)
  }

  @Test func aSessionPays16BytesForIt() {
    #expect(MemoryLayout<TokenGrant>.size == 16)
  }

  /// Who tries one token after the other is closed, as with attaches.
  @Test(.edge()) func renewalsAreNotTriedWithoutEnd() async throws {
    let client = try await phone()
    for id in 2..<12 { client.say(UInt64(id), .renew(token: "a.b.c")) }
    #expect(try await client.closeCode() == 4004)
  }

  @Test(.edge()) func aTokenThatIsGoodForTooLongIsRefusedAndSaysWhy() async throws {
    let token = try edge.token("ann", lifetimeSeconds: 8 * 86_400)
    let attach = AttachRequest(token: token, device: "phone")
    let error = try await edge.socket().ask(1, .attach(attach)).error
    #expect(error?.code == .tokenTooLong && error?.message.contains("604800") == true)
    let answer = try await edge.request(
      "GET", "/v1/calls/ann/00000000-0000-0001-0000-000000000002?device=phone", token: token)
    #expect(answer.outcome == (401, 203))
  }
}

/// Sessions end when the keys or an operator say so.
@Suite struct TokenRevocationTests {
  private func revoke(_ user: String, _ edge: EdgeFixture, at seconds: Int64 = wallSeconds) {
    edge.configuration.tokens.revoke(app: "demo", user: user, atSeconds: seconds, now: wallSeconds)
  }

  private func attach(_ user: String, _ edge: EdgeFixture) async throws -> CallError.Code? {
    let attach = AttachRequest(token: try edge.token(user), device: "phone")
    return try await edge.socket().ask(1, .attach(attach)).code
  }

  @Test(.edge()) func aKeyThatIsTakenOutTakesItsSessionsAlong() async throws {
    let keys = edge.configuration.tokens.keys
    let phone = try await edge.device("ann", "phone")
    // Keys that stay, and another user's revocation, leave it alone.
    edge.configuration.tokens.replace(keys: keys)
    revoke("bob", edge)
    #expect(try await attach("bob", edge) == .revoked)
    #expect(try await phone.client.ask(2, .ping) == .done)
    // Upgraded, and not attached yet.
    let waiting = try await edge.client()
    try await waiting.upgrade(token: try edge.token("eve"))
    edge.configuration.tokens.replace(keys: AppKeys.generateDevelopment(app: "demo").0)
    #expect(try await phone.client.closeCode() == 4009)
    #expect(try await waiting.closeCode() == 4009)
    #expect(try await attach("ann", edge) == .notAccepted)
    edge.configuration.tokens.replace(keys: keys)
    _ = try await edge.device("ann", "phone")
  }

  @Test(.edge()) func aRevocationEndsSessionsAndTokens() async throws {
    let phone = try await edge.device("ann", "phone")
    let bob = try await edge.device("bob", "phone")
    let old = try edge.token("ann")
    revoke("ann", edge)
    #expect(try await phone.client.closeCode() == 4009)
    let answer = try await edge.request("DELETE", "/v1/devices/phone", token: old)
    #expect(answer.outcome == (401, 204))
    // A token that is issued later is good.
    let back = try await edge.client()
    try await back.attach(token: try edge.token("ann", now: wallSeconds + 1), device: "phone")
    #expect(try await bob.client.ask(2, .ping) == .done)
    #expect(edge.metric("callmesh_edge_closes_total{reason=\"token_revoked\"}") == 1)
  }

  @Test(.edge { $0.eventLoops = 1 }) func aRenewedSessionRestsOnItsNewToken() async throws {
    let phone = try await edge.device("ann", "phone").client
    let tablet = try await edge.device("ann", "tablet").client
    let token = try edge.token("ann", now: wallSeconds + 30)
    #expect(try await phone.ask(2, .renew(token: token)) == .done)
    revoke("ann", edge, at: wallSeconds + 29)
    // All sessions of the loop were looked at.
    #expect(try await tablet.closeCode() == 4009)
    #expect(try await phone.ask(3, .ping) == .done)
    revoke("ann", edge, at: wallSeconds + 30)
    #expect(try await phone.closeCode() == 4009)
  }

  private func kick(_ edge: EdgeFixture, _ request: KickRequest) async throws -> KickAnswer {
    try JSONDecoder().decode(KickAnswer.self, from: Data(try await edge.order("kick", request)))
  }

  @Test(
    "operators end all sessions of a user, or that of a device", .edge(),
    arguments: [nil, "tablet"] as [String?])
  func kicked(device: String?) async throws {
    let phone = try await edge.device("ann", "phone").client
    let tablet = try await edge.device("ann", "tablet").client
    let bob = try await edge.device("bob", "phone").client
    // Nobody of that name is nobody, and a message that is no order does nothing.
    #expect(try await kick(edge, KickRequest(app: "other", user: "ann")).sessions == 0)
    #expect(try await kick(edge, KickRequest(app: "demo", user: "an")).sessions == 0)
    edge.bus.publish(edge.shards.subjects.order("kick", by: "ann"), Array("{".utf8))
    #expect(try await phone.ask(9, .ping) == .done)
    let ends = device == nil ? [phone, tablet] : [tablet]
    let answer = try await kick(edge, KickRequest(app: "demo", user: "ann", device: device))
    #expect(answer == KickAnswer(node: "edge-1", sessions: ends.count))
    for client in ends {
      #expect(try await client.closeCode() == 4011)
      // As a session that broke: it may come back, and calls wait for it.
      #expect(try await edge.shards.next(\.isEnd).body == .sessionClosed(graceful: false))
    }
    for client in device == nil ? [bob] : [bob, phone] {
      #expect(try await client.ask(9, .ping) == .done)
    }
    _ = try await edge.device("ann", "tablet")
  }

  /// The order that goes with a revocation works before the list says so, and counts what the list has
  /// ended before.
  @Test(.edge(), arguments: [false, true])
  func aRevocationCountsItsSessions(listComesFirst: Bool) async throws {
    let phone = try await edge.device("ann", "phone").client
    let tablet = try await edge.device("ann", "tablet").client
    let bob = try await edge.device("bob", "phone").client
    if listComesFirst {
      revoke("ann", edge)
      #expect(try await phone.closeCode() == 4009)
    }
    let request = KickRequest(app: "demo", user: "ann", revokedAtSeconds: wallSeconds)
    #expect(try await kick(edge, request).sessions == 2)
    if !listComesFirst { #expect(try await phone.closeCode() == 4009) }
    #expect(try await tablet.closeCode() == 4009)
    #expect(try await bob.ask(9, .ping) == .done)
    // Not twice.
    #expect(try await kick(edge, request).sessions == 0)
    #expect(try await attach("ann", edge) == .revoked)
  }
}

/// The reason why a token was refused: the device does not learn it, the log and a metric tell it.
@Suite(.timeLimit(.minutes(2))) struct RefusedTokenTests {
  private static func token(_ payload: String) -> String {
    [#"{"alg":"HS256","kid":"k1"}"#, payload, "no signature"]
      .map { Base64URL.text(Array($0.utf8)) }.joined(separator: ".")
  }

  /// A user id that is a number, as an app's server may write it.
  private static let numeric = token(#"{"app":"demo","sub":424242,"exp":1800000600}"#)
  private static let path = "/v1/calls/bob/11111111-2222-3333-4444-555555555555"

  private func run(
    _ body: (EdgeFixture, StillTime, _ lines: () -> [String]) async throws -> Void
  ) async throws {
    let said = Mutex<[String]>([])
    let time = StillTime()
    let keep: @Sendable (String) -> Void = { line in said.withLock { $0.append(line) } }
    try await EdgeFixture.run(at: time, log: keep) { edge in
      try await body(edge, time) {
        said.withLock { $0.filter { $0.contains("A token was refused.") } }
      }
    }
  }

  private func refused(_ part: String, _ edge: EdgeFixture) -> Double {
    edge.metric("callmesh_edge_tokens_refused_total{part=\"\(part)\"}")
  }

  @Test func theLogSaysWhichClaimIsWrong() async throws {
    try await run { edge, _, lines in
      let answer = try await edge.request("GET", Self.path, token: Self.numeric)
      #expect(answer.outcome == (401, 200))
      #expect(!answer.text.contains("sub"), "whoever tries tokens is helped by no detail")
      #expect(lines().count == 1)
      let line = try #require(lines().first)
      #expect(line.contains("sub has another type: it is text"))
      #expect(!line.contains("424242") && !line.contains(Self.numeric))
      #expect(refused("sub", edge) == 1)
      // Another fault is another part; a good token is none.
      for (token, status) in [
        (try edge.expiredToken(), 401), (try edge.token("ann", device: "phone"), 200),
      ] {
        #expect(try await edge.request("GET", Self.path, token: token).status == status)
      }
      #expect(refused("exp", edge) == 1 && refused("sub", edge) == 1)
      #expect(lines().count == 2)
      // So does that of an attach.
      let attach = AttachRequest(token: Self.numeric, device: "phone")
      #expect(try await edge.socket().ask(1, .attach(attach)).code == .notAccepted)
      #expect(lines().count == 3 && lines().last?.contains("sub has another type") == true)
    }
  }

  /// A flood of bad tokens fills no log.
  @Test func itsRateIsLimited() async throws {
    try await run { edge, time, lines in
      let client = try await edge.client()
      func fail(_ times: Int) async throws {
        for _ in 0..<times {
          let answer = try await client.request("GET", Self.path, token: Self.numeric)
          #expect(answer.status == 401)
        }
      }
      try await fail(30)
      #expect(lines().count == 20)
      #expect(refused("sub", edge) == 20)
      time.pass(.milliseconds(100))
      try await fail(3)
      #expect(lines().count == 22, "20 a second")
    }
  }
}

/// By what right commands speak: coordinators check it, so each has to carry it. Those of requests over HTTP are in
/// `PushRequestTests`, `AppServerTests` and `AppHistoryTests`.
@Suite(.timeLimit(.minutes(2))) struct CredentialTests {
  private static let ticket = SessionTicket(high: 1, low: 2, expires: 3, issued: 4)
  private static let call = CallID(high: 5, low: 6)

  @Test(.edge()) func tokenThenTicket() async throws {
    edge.shards.follow { command in
      guard let attach = command.attach else { return FakeShards.agreeing(command) }
      return attach.announce ? nil : .attached(forCall: nil, ticket: Self.ticket)
    }
    let token = try edge.token("ann")
    let client = try await edge.socket()
    try await client.attach(AttachRequest(token: token, device: "phone"))
    #expect(try await edge.shards.next().credential == .token(token))
    client.say(2, .place(Self.call))
    client.say(3, .ack([AckItem(call: CallAddress(callee: "bob", call: Self.call), version: 1)]))
    client.say(4, .calls)
    for _ in 0..<10 {
      let command = try await edge.shards.next()
      #expect(command.credential == .ticket(Self.ticket), "\(command.body)")
    }
    // The sessions and the calls that are announced to a new owner, and the end of both.
    for user in ["ann", "bob"] { edge.askForSessions(of: user, epoch: 1, number: 1) }
    let announced = try await edge.shards.next(\.isAnnouncement)
    #expect(announced.credential == .ticket(Self.ticket))
    client.say(5, .detach)
    #expect(try await edge.shards.next(\.isEnd).credential == .ticket(Self.ticket))
    let gone = try await edge.shards.next {
      if case .callerGone = $0.body { true } else { false }
    }
    #expect(gone.credential == .ticket(Self.ticket))
  }

  @Test(.edge()) func tokenOfTheHandshake() async throws {
    let token = try edge.token("ann", device: "phone")
    let client = try await edge.client()
    try await client.upgrade(token: token)
    try await client.attach(AttachRequest())
    #expect(try await edge.shards.next().credential == .token(token))
    // Its coordinator gave it no ticket.
    client.say(2, .unregister(nil))
    #expect(try await edge.shards.next().credential == .none)
  }
}
