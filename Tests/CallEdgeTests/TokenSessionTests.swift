import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

/// An edge whose time stands still until the test lets it pass.
private func withEdge(
  _ change: (inout EdgeConfiguration) -> Void = { _ in },
  _ body: (EdgeFixture, StillTime) async throws -> Void
) async throws {
  let time = StillTime()
  try await EdgeFixture.run(at: time) {
    change(&$0)
    // Time passes in leaps.
    $0.cutOffAfter = .seconds(100_000)
    $0.pingInterval = .seconds(600)
  } _: {
    try await body($0, time)
  }
}

extension RawClient {
  /// The next frame that is no ping.
  private func heard() async throws -> Frame {
    while true {
      let frame = try await frame()
      if frame.opcode != 9 { return frame }
    }
  }

  private func heardMessage() async throws -> ServerFrame {
    try await heard().payload.withUnsafeBytes { try codec.decodeServer($0) }
  }

  func notice() async throws -> Notice {
    guard case .notice(let notice) = try await heardMessage() else {
      throw TestFailure("no notice")
    }
    return notice
  }

  /// The answer to a ping of the device proves that nothing was said before.
  func staysSilent(_ id: UInt64) async throws {
    say(id, .ping)
    guard case .reply(id, .done) = try await heardMessage() else { throw TestFailure("not silent") }
  }

  func closeCode() async throws -> Int {
    while true {
      if let code = try await frame().closeCode { return code }
    }
  }
}

/// Sessions end with their tokens.
@Suite struct TokenSessionTests {
  /// The session is warned in time. It ends when its token does, like one whose socket broke.
  @Test(arguments: DeviceCodec.allCases)
  func aSessionEndsWithItsToken(codec: DeviceCodec) async throws {
    try await withEdge { edge, time in
      let client = try await edge.client()
      client.codec = codec
      try await client.attach(
        token: try await edge.token("ann", lifetimeSeconds: 100), device: "phone")
      // A quarter of its life before.
      time.pass(.seconds(75))
      #expect(try await client.notice().kind == .tokenExpires)
      time.pass(.seconds(25))
      #expect(try await client.closeCode() == 4008)
      let farewell = try await edge.shards.next {
        if case .sessionClosed = $0.body { true } else { false }
      }
      #expect(farewell.body == .sessionClosed(graceful: false))
    }
  }

  @Test func aLongTokenIsAnnouncedAMinuteBefore() async throws {
    try await withEdge { edge, time in
      let client = try await edge.client()
      try await client.attach(token: try await edge.token("ann"), device: "phone")
      time.pass(.seconds(3600 - 61))
      try await client.staysSilent(2)
      time.pass(.seconds(1))
      #expect(try await client.notice().kind == .tokenExpires)
    }
  }

  @Test(arguments: DeviceCodec.allCases)
  func whoRenewsStays(codec: DeviceCodec) async throws {
    try await withEdge { edge, time in
      let client = try await edge.client()
      client.codec = codec
      try await client.attach(
        token: try await edge.token("ann", lifetimeSeconds: 100), device: "phone")
      client.say(
        2, .renew(token: try await edge.token("ann", device: "phone", lifetimeSeconds: 300)))
      #expect(try await client.reply() == (2, .done))
      // The notice comes for the new token, and not for the old one.
      time.pass(.seconds(220))
      try await client.staysSilent(3)
      time.pass(.seconds(20))
      #expect(try await client.notice().kind == .tokenExpires)
    }
  }

  /// Coordinators take commands by a ticket, which ends with the token: a new token needs a new ticket.
  @Test func whoRenewsGetsANewTicket() async throws {
    try await withEdge { edge, time in
      let now = UInt32(wallSeconds)
      let first = SessionTicket(high: 1, low: 1, expires: now + 100, issued: now)
      let second = SessionTicket(high: 2, low: 2, expires: now + 300, issued: now)
      let token = try await edge.token("ann", lifetimeSeconds: 300)
      edge.shards.follow { command in
        guard case .attach = command.body else { return FakeShards.agreeing(command) }
        let ticket = command.credential == .token(token) ? second : first
        return .attached(forCall: nil, ticket: ticket)
      }
      let client = try await edge.client()
      try await client.attach(
        token: try await edge.token("ann", lifetimeSeconds: 100), device: "phone")
      client.say(2, .renew(token: token))
      #expect(try await client.reply() == (2, .done))
      let renewal = try await edge.shards.next { $0.credential == .token(token) }
      // The same session, so that nothing of it changes.
      guard case .attach(let attach) = renewal.body else { throw TestFailure("no attach") }
      #expect(attach.announce && renewal.request == 2)
      client.say(3, .call(CallAddress(call: CallID(high: 1, low: 2)), .query))
      guard case (3, .call) = try await client.reply() else { throw TestFailure("no state") }
      let query = try await edge.shards.next { $0.request == 3 }
      #expect(query.credential == .ticket(second))
      time.pass(.seconds(220))
      try await client.staysSilent(4)
      time.pass(.seconds(20))
      #expect(try await client.notice().kind == .tokenExpires)
    }
  }

  /// The coordinator may know of a revocation before the edge does.
  @Test func aRenewalThatTheShardRefusesChangesNothing() async throws {
    try await EdgeFixture.run { edge in
      let ticket = SessionTicket(
        high: 1, low: 1, expires: UInt32(wallSeconds) + 3600, issued: UInt32(wallSeconds))
      let token = try await edge.token("ann", lifetimeSeconds: 300)
      edge.shards.follow { command in
        guard case .attach = command.body else { return FakeShards.agreeing(command) }
        return command.credential == .token(token)
          ? .error(CallError(.revoked)) : .attached(forCall: nil, ticket: ticket)
      }
      let client = try await edge.client()
      try await client.attach(token: try await edge.token("ann"), device: "phone")
      client.say(2, .renew(token: token))
      #expect(try await client.errorReply() == (2, .revoked))
      client.say(3, .call(CallAddress(call: CallID(high: 1, low: 2)), .query))
      guard case (3, .call) = try await client.reply() else { throw TestFailure("no state") }
      let query = try await edge.shards.next { $0.request == 3 }
      #expect(query.credential == .ticket(ticket))
    }
  }

  /// A token that does not fit changes nothing: the session goes on with the one that it has.
  @Test func whatDoesNotFitIsRefused() async throws {
    try await withEdge { edge, time in
      let client = try await edge.client()
      try await client.attach(
        token: try await edge.token("ann", lifetimeSeconds: 100), device: "phone")
      let expired = try edge.keys.mintToken(
        app: "demo", user: "ann", lifetimeSeconds: 60, now: wallSeconds - 61)
      let cases: [(String, CallError.Code)] = [
        (try await edge.token("bob"), .forbidden),
        (try await edge.token("ann", device: "tablet"), .notAccepted),
        ("a.b.c", .notAccepted), ("", .notAccepted), (expired, .expired),
        (try await edge.token("ann", lifetimeSeconds: 30 * 86_400), .tokenTooLong),
      ]
      for (index, (token, code)) in cases.enumerated() {
        client.say(UInt64(index + 2), .renew(token: token))
        #expect(try await client.errorReply() == (UInt64(index + 2), code))
      }
      time.pass(.seconds(100))
      // Both come in one look, or the notice before.
      #expect(try await client.closeCode() == 4008)
    }
  }

  @Test func aSessionPays16BytesForIt() {
    #expect(MemoryLayout<TokenGrant>.size == 16)
  }

  @Test func renewingNeedsASession() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      try await client.upgrade(token: try await edge.token("ann"))
      client.say(1, .renew(token: try await edge.token("ann")))
      #expect(try await client.errorReply() == (1, .notAttached))
    }
  }

  /// Who tries one token after the other is closed, as with attaches.
  @Test func renewalsAreNotTriedWithoutEnd() async throws {
    try await EdgeFixture.run { edge in
      let phone = try await edge.device("ann", "phone")
      for id in 2..<12 { phone.client.say(UInt64(id), .renew(token: "a.b.c")) }
      #expect(try await phone.client.closeCode() == 4004)
    }
  }

  @Test func aTokenThatIsGoodForTooLongIsRefusedAndSaysWhy() async throws {
    try await EdgeFixture.run { edge in
      let client = try await edge.client()
      try await client.upgrade()
      let token = try await edge.token("ann", lifetimeSeconds: 8 * 86_400)
      client.say(1, .attach(AttachRequest(token: token, device: "phone")))
      guard case (1, .error(let error)) = try await client.reply() else {
        throw TestFailure("no error")
      }
      #expect(error.code == .tokenTooLong && error.message.contains("604800"))
      let http = try await edge.client()
      let answer = try await http.request(
        "GET", "/v1/calls/ann/00000000-0000-0001-0000-000000000002?device=phone", token: token)
      #expect(answer.status == 401 && answer.errorCode == 203)
    }
  }
}
