import CallAuth
import CallCoordinator
import CallCore
import CallTelemetry
import Testing

/// A coordinator believes some commands of an edge and refuses others.
@Suite struct CommandAuthenticatorTests {
  static let now = Timestamp(microseconds: 1_700_000_000_000_000)
  static let seconds = now.microseconds / 1_000_000
  static let secret = EdgeSecret(high: 3, low: 4)
  static let edge = EdgeNumber.of(secret: 3, 4)
  static let ann = UserKey(app: "demo", user: "ann")
  static let call = CallID(high: 1, low: 2)

  /// The keys of an app, of tickets and of pushes.
  struct Rig {
    let keys = AppKeys.generateDevelopment(apps: ["demo", "app"]).0
    let tickets = TicketKeyring(try? SessionTicketKeys([[UInt8](repeating: 1, count: 32)]))
    let push = PushKeyring(try? PushCapabilityKeys([[UInt8](repeating: 2, count: 32)]))
    let metrics = CoordinatorMetrics(MetricsRegistry())

    let tokens: TokenAuthority
    let authority: CommandAuthority

    init() {
      tokens = TokenAuthority(keys: keys)
      authority = CommandAuthority(tokens: tokens, tickets: tickets, pushKeys: push)
    }

    /// The number of the key that signs by default.
    func keyNumber() async throws -> UInt32 {
      try tokens.verify(try await token(), now: CommandAuthenticatorTests.seconds).keyNumber
    }

    func check(_ mode: SessionTickets = .required) -> CommandAuthenticator {
      CommandAuthenticator(authority, mode, metrics)
    }

    func token(
      _ user: String = "ann", device: String? = nil, app: String = "demo",
      kid: String = "dev-es256",
      lifetime: Int64 = 600
    ) async throws -> String {
      try keys.mintToken(
        kid: kid, app: app, user: user, device: device, lifetimeSeconds: lifetime,
        now: CommandAuthenticatorTests.seconds)
    }
  }

  private func command(
    _ body: Command.Body = .attach(Attach()), _ credential: Credential = .none,
    user: UserKey = ann, device: DeviceID = "phone", edge: UInt64 = edge
  ) -> Command {
    var command = Command(
      session: SessionRef(edge: edge, number: 5), request: 1, user: user, device: device,
      callee: user, body: body)
    command.credential = credential
    return command
  }

  private func judge(
    _ check: inout CommandAuthenticator, _ command: Command, later: Span = .seconds(0)
  ) -> CommandAuthenticator.Verdict {
    var command = command
    return check.authenticate(&command, now: Self.now + later)
  }

  private func isEdge(
    _ check: inout CommandAuthenticator, _ edge: UInt64, _ secret: EdgeSecret?
  ) -> Bool { check.isEdge(edge, secret) }

  @Test("a token gets a ticket, and the ticket speaks for its device through its edge alone")
  func aTicketForAToken() async throws {
    let rig = Rig()
    var check = rig.check()
    var attach = command(.attach(Attach()), .token(try await rig.token()))
    #expect(check.authenticate(&attach, now: Self.now) == .accepted)
    let ticket = try #require(attach.ticket)
    #expect(ticket.expires == UInt32(Self.seconds + 600))
    #expect(ticket.issued == UInt32(Self.seconds))
    let body = Command.Body.call(Self.call, .hangUp)
    #expect(judge(&check, command(body, .ticket(ticket))) == .accepted)
    // Remembered: the code is worked out once.
    #expect(judge(&check, command(body, .ticket(ticket))) == .accepted)
    #expect(rig.metrics.ticketsChecked.value == 1)
    let bob = UserKey(app: "demo", user: "bob")
    for forged in [
      command(body, .ticket(ticket), user: bob), command(body, .ticket(ticket), device: "tablet"),
      command(body, .ticket(ticket), edge: Self.edge + 1),
      command(body, .ticket(ticket), user: UserKey(app: "other", user: "ann")), command(body),
    ] { #expect(judge(&check, forged) == .unknownSession) }
    for change: (inout SessionTicket) -> Void in [
      { $0.high ^= 1 }, { $0.low ^= 1 }, { $0.low ^= 1 << 40 }, { $0.expires += 1 },
      { $0.issued += 1 },
    ] {
      var other = ticket
      change(&other)
      #expect(judge(&check, command(body, .ticket(other))) == .unknownSession)
    }
    // Another coordinator knows it as well.
    var another = rig.check()
    #expect(judge(&another, command(body, .ticket(ticket))) == .accepted)
  }

  @Test("a ticket ends with its token")
  func ticketsEnd() async throws {
    let rig = Rig()
    var check = rig.check()
    var attach = command(.attach(Attach()), .token(try await rig.token()))
    #expect(check.authenticate(&attach, now: Self.now) == .accepted)
    let said = command(.call(Self.call, .query), attach.credential)
    let leeway = CommandAuthenticator.leewaySeconds
    #expect(judge(&check, said, later: .seconds(600 + leeway - 1)) == .accepted)
    #expect(judge(&check, said, later: .seconds(600 + leeway)) == .unknownSession)
  }

  @Test("a ticket ends with the key of its token")
  func keysEnd() async throws {
    let rig = Rig()
    var check = rig.check()
    var attach = command(.attach(Attach()), .token(try await rig.token()))
    #expect(check.authenticate(&attach, now: Self.now) == .accepted)
    let said = command(.call(Self.call, .query), attach.credential)
    #expect(judge(&check, said) == .accepted)
    rig.tokens.replace(keys: AppKeys.generateDevelopment(app: "demo").0)
    #expect(judge(&check, said) == .unknownSession)
    rig.tokens.replace(keys: rig.keys)
    #expect(judge(&check, said) == .accepted)
  }

  @Test("a revoked token is refused, and the tickets of those that were revoked count no more")
  func revoked() async throws {
    let rig = Rig()
    var check = rig.check()
    let token = Credential.token(try await rig.token())
    var attach = command(.attach(Attach()), token)
    #expect(check.authenticate(&attach, now: Self.now) == .accepted)
    let said = command(.call(Self.call, .query), attach.credential)
    #expect(judge(&check, said) == .accepted)
    rig.tokens.revoke(app: "demo", user: "bob", atSeconds: Self.seconds, now: Self.seconds)
    #expect(judge(&check, said) == .accepted)
    rig.tokens.revoke(app: "demo", user: "ann", atSeconds: Self.seconds, now: Self.seconds)
    #expect(judge(&check, said) == .unknownSession)
    let again = judge(&check, command(.attach(Attach()), token), later: .seconds(1))
    #expect(again == .refused(CallError(.revoked)))
  }

  @Test("an app's server is believed by its token alone, for what is meant for it, in its app")
  func serverTokens() async throws {
    let rig = Rig()
    var check = rig.check()
    let server = Credential.token(
      try rig.keys.mintServerToken(app: "demo", lifetimeSeconds: 60, now: Self.seconds))
    let requests: [Command.Body] = [
      .app(.user), .app(.calls(shard: 0)), .app(.call(Self.call)), .app(.end(Self.call)),
      .app(.remove("phone")), .app(.name), .app(.setName("Ann")), .rules(.read),
      .rules(.write(UserRules())), .history(.list(before: HistoryCursor(7), limit: 50)),
      .history(.markRead(upTo: HistoryCursor(7))), .app(.live(LiveCallsQuery(limit: 100))),
    ]
    for body in requests {
      #expect(judge(&check, command(body, server, device: "")) == .accepted, "\(body)")
      let other = UserKey(app: "app", user: "ann")
      let foreign = judge(&check, command(body, server, user: other, device: ""))
      #expect(foreign == .refused(CallError(.notAccepted)), "\(body)")
      let late = judge(&check, command(body, server, device: ""), later: .seconds(60))
      #expect(late == .refused(CallError(.expired)), "\(body)")
    }
    // It is nobody's device.
    for body: Command.Body in [
      .attach(Attach()), .call(Self.call, .decline(.everywhere)), .unregister("phone"),
      .register(RegistrationRequest()), .place(PlaceRequest(call: Self.call)), .calls(shard: 0),
      // Only shards add entries to a history.
      .history(.changed),
    ] {
      let verdict = judge(&check, command(body, server))
      #expect(verdict == .refused(CallError(.forbidden)), "\(body)")
    }
    // The end of its key ends it.
    rig.tokens.replace(keys: AppKeys.generateDevelopment(app: "demo").0)
    let ended = judge(&check, command(.app(.user), server, device: ""))
    #expect(ended == .refused(CallError(.notAccepted)))
  }

  @Test("an edge has nothing but a server's token by which it could speak for an app's server")
  func nobodyElseIsAServer() async throws {
    let rig = Rig()
    for mode in [SessionTickets.required, .offered] {
      var check = rig.check(mode)
      let user = Credential.token(try await rig.token())
      var attach = command(.attach(Attach()), user)
      #expect(check.authenticate(&attach, now: Self.now) == .accepted)
      let end = Command.Body.app(.end(Self.call))
      #expect(judge(&check, command(end, user)) == .refused(CallError(.forbidden)))
      for credential in [attach.credential, .none, .pushCapability("AAAA")] {
        #expect(judge(&check, command(end, credential)) == .refused(CallError(.notAccepted)))
      }
      // The user's own rules are the session's to set.
      #expect(judge(&check, command(.rules(.read), attach.credential)) == .accepted)
    }
  }

  @Test("tokens of others, of nobody, and of yesterday")
  func badTokens() async throws {
    let rig = Rig()
    var check = rig.check()
    let refused = CommandAuthenticator.Verdict.refused(CallError(.notAccepted))
    let other = try await rig.token("bob")
    let tablet = try await rig.token(device: "tablet")
    let foreign = try await Rig().token()
    for text in [other, tablet, foreign, "", "a.b.c", String(repeating: "x", count: 100_000)] {
      #expect(judge(&check, command(.attach(Attach()), .token(text))) == refused)
    }
    let good = try await rig.token(device: "phone", kid: "dev-hs256")
    #expect(judge(&check, command(.attach(Attach()), .token(good))) == .accepted)
    #expect(
      judge(&check, command(.attach(Attach()), .token(good)), later: .seconds(600))
        == .refused(CallError(.expired)))
  }

  @Test("what a push allows: three commands, for its call and its device")
  func capabilities() throws {
    let rig = Rig()
    var check = rig.check()
    let text = try #require(rig.push.current).mint(
      PushCapability(
        app: "demo", user: "ann", device: "phone", call: Self.call.bytes,
        expires: Self.seconds + 60))
    let credential = Credential.pushCapability(text)
    for body: Command.Body in [
      .call(Self.call, .decline(.everywhere)), .call(Self.call, .busy), .call(Self.call, .query),
    ] { #expect(judge(&check, command(body, credential)) == .accepted) }
    let refused = CommandAuthenticator.Verdict.refused(CallError(.notAccepted))
    let another = CallID(high: 1, low: 3)
    for body: Command.Body in [
      .call(another, .decline(.here)), .call(Self.call, .hangUp),
      .call(Self.call, .answer(description: "")),
      .attach(Attach(announce: true)), .unregister("phone"),
    ] { #expect(judge(&check, command(body, credential)) == refused) }
    #expect(
      judge(&check, command(.call(Self.call, .busy), credential, device: "tablet")) == refused)
    let bob = UserKey(app: "demo", user: "bob")
    #expect(judge(&check, command(.call(Self.call, .busy), credential, user: bob)) == refused)
    var elsewhere = command(.call(Self.call, .busy), credential)
    // A call that was diverted to the user is in another one's shard, which knows whom it rings.
    elsewhere.callee = bob
    #expect(judge(&check, elsewhere) == .accepted)
    elsewhere.callee = UserKey(app: "other", user: "bob")
    #expect(judge(&check, elsewhere) == refused)
  }

  @Test("an edge proves its number")
  func edges() {
    let rig = Rig()
    var check = rig.check()
    #expect(isEdge(&check, Self.edge, Self.secret))
    #expect(isEdge(&check, Self.edge, Self.secret))
    #expect(!isEdge(&check, Self.edge, EdgeSecret(high: 3, low: 5)))
    #expect(!isEdge(&check, Self.edge, nil))
    #expect(!isEdge(&check, 77, Self.secret))
  }

  @Test("an edge asks about nobody without a ticket")
  func reach() {
    var check = Rig().check()
    let question = Command.reachabilityProbe(9, session: SessionRef(edge: Self.edge, number: 5))
    #expect(judge(&check, question) == .accepted)
    var other = question
    other.user = Self.ann
    #expect(judge(&check, other) == .unknownSession)
    other = question
    other.body = .call(CallID(high: 0, low: 9), .hangUp)
    #expect(judge(&check, other) == .unknownSession)
    other.body = .call(Self.call, .query)
    #expect(judge(&check, other) == .unknownSession)
  }

  @Test("what is remembered has a bound")
  func bounds() async throws {
    let rig = Rig()
    let key = try await rig.keyNumber()
    var check = rig.check()
    let keys = try #require(rig.tickets.current)
    for number in 0..<10_000 {
      let user = UserKey(app: "demo", user: "u\(number)")
      var said = command(.call(Self.call, .query), user: user)
      said.credential = .ticket(keys.ticket(for: said, expires: .max, issued: 1, key: key))
      #expect(check.authenticate(&said, now: Self.now) == .accepted)
      let secret = EdgeSecret(high: UInt64(number), low: 1)
      #expect(isEdge(&check, EdgeNumber.of(secret: secret.high, secret.low), secret))
    }
    #expect(check.remembered.tickets <= 4096 && check.remembered.edges <= 1024)
  }

  @Test("during an upgrade edges without tickets are believed, bad tickets are not")
  func offered() async throws {
    let rig = Rig()
    var check = rig.check(.offered)
    #expect(isEdge(&check, 77, nil))
    #expect(!isEdge(&check, 77, Self.secret))
    #expect(judge(&check, command(.call(Self.call, .hangUp))) == .accepted)
    let forged = SessionTicket(high: 1, low: 2, expires: .max, issued: 1)
    #expect(judge(&check, command(.call(Self.call, .hangUp), .ticket(forged))) == .unknownSession)
    #expect(
      judge(&check, command(.attach(Attach()), .token("a.b.c")))
        == .refused(CallError(.notAccepted)))
    var attach = command(.attach(Attach()), .token(try await rig.token()))
    #expect(check.authenticate(&attach, now: Self.now) == .accepted)
    #expect(attach.ticket != nil)
  }
}
