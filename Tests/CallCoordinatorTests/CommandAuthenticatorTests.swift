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
  static let bob = UserKey(app: "demo", user: "bob")
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

    func check(_ mode: SessionTickets = .required) -> Check {
      Check(CommandAuthenticator(authority, mode, metrics))
    }

    func token(
      _ user: String = "ann", device: String? = nil, app: String = "demo",
      kid: String = "dev-es256", lifetime: Int64 = 600
    ) throws -> String {
      try keys.mintToken(
        kid: kid, app: app, user: user, device: device, lifetimeSeconds: lifetime,
        now: CommandAuthenticatorTests.seconds)
    }

    func serverToken() throws -> String {
      try keys.mintServerToken(
        app: "demo", lifetimeSeconds: 60, now: CommandAuthenticatorTests.seconds)
    }
  }

  /// A coordinator. Expressions of `#expect` change no values, so it is an object.
  final class Check {
    private var authenticator: CommandAuthenticator
    init(_ authenticator: CommandAuthenticator) { self.authenticator = authenticator }

    var remembered: (tickets: Int, edges: Int) { authenticator.remembered }

    func judge(_ command: Command, later: Span = .seconds(0)) -> CommandAuthenticator.Verdict {
      var command = command
      return authenticator.authenticate(&command, now: CommandAuthenticatorTests.now + later)
    }

    func isEdge(_ edge: UInt64, _ secret: EdgeSecret?) -> Bool {
      authenticator.isEdge(edge, secret)
    }

    /// The ticket that ann's phone gets for its token.
    func ticket(_ rig: Rig) throws -> SessionTicket {
      var attach = CommandAuthenticatorTests.command(.attach(Attach()), .token(try rig.token()))
      #expect(authenticator.authenticate(&attach, now: CommandAuthenticatorTests.now) == .accepted)
      return try #require(attach.ticket)
    }
  }

  private static func command(
    _ body: Command.Body = .attach(Attach()), _ credential: Credential = .none,
    user: UserKey = ann, device: DeviceID = "phone", edge: UInt64 = edge
  ) -> Command {
    var command = Command(
      session: SessionRef(edge: edge, number: 5), request: 1, user: user, device: device,
      callee: user, body: body)
    command.credential = credential
    return command
  }

  private let rig = Rig()
  private let query = Command.Body.call(Self.call, .query)
  private let hangUp = Command.Body.call(Self.call, .hangUp)
  private let attach = Command.Body.attach(Attach())

  private func refused(_ code: CallError.Code) -> CommandAuthenticator.Verdict {
    .refused(CallError(code))
  }

  @Test("a token gets a ticket, and the ticket speaks for its device through its edge alone")
  func aTicketForAToken() throws {
    let check = rig.check()
    let ticket = try check.ticket(rig)
    #expect(ticket.expires == UInt32(Self.seconds + 600))
    #expect(ticket.issued == UInt32(Self.seconds))
    let said = Self.command(hangUp, .ticket(ticket))
    #expect(check.judge(said) == .accepted)
    // Remembered: the code is worked out once.
    #expect(check.judge(said) == .accepted)
    #expect(rig.metrics.ticketsChecked.value == 1)
    for forged in [
      Self.command(hangUp, .ticket(ticket), user: Self.bob),
      Self.command(hangUp, .ticket(ticket), device: "tablet"),
      Self.command(hangUp, .ticket(ticket), edge: Self.edge + 1),
      Self.command(hangUp, .ticket(ticket), user: UserKey(app: "other", user: "ann")),
      Self.command(hangUp),
    ] { #expect(check.judge(forged) == .unknownSession) }
    for change: (inout SessionTicket) -> Void in [
      { $0.high ^= 1 }, { $0.low ^= 1 }, { $0.low ^= 1 << 40 }, { $0.expires += 1 },
      { $0.issued += 1 },
    ] {
      var other = ticket
      change(&other)
      #expect(check.judge(Self.command(hangUp, .ticket(other))) == .unknownSession)
    }
    // Another coordinator knows it as well.
    #expect(rig.check().judge(said) == .accepted)
  }

  @Test("a ticket ends with its token") func ticketsEnd() throws {
    let check = rig.check()
    let said = Self.command(query, .ticket(try check.ticket(rig)))
    let leeway = CommandAuthenticator.leewaySeconds
    #expect(check.judge(said, later: .seconds(600 + leeway - 1)) == .accepted)
    #expect(check.judge(said, later: .seconds(600 + leeway)) == .unknownSession)
  }

  @Test("a ticket ends with the key of its token") func keysEnd() throws {
    let check = rig.check()
    let said = Self.command(query, .ticket(try check.ticket(rig)))
    #expect(check.judge(said) == .accepted)
    rig.tokens.replace(keys: AppKeys.generateDevelopment(app: "demo").0)
    #expect(check.judge(said) == .unknownSession)
    rig.tokens.replace(keys: rig.keys)
    #expect(check.judge(said) == .accepted)
  }

  @Test("a revoked token is refused, and the tickets of those that were revoked count no more")
  func revoked() throws {
    let check = rig.check()
    let said = Self.command(query, .ticket(try check.ticket(rig)))
    for (user, verdict) in [
      ("bob", CommandAuthenticator.Verdict.accepted), ("ann", .unknownSession),
    ] {
      #expect(check.judge(said) == .accepted)
      rig.tokens.revoke(app: "demo", user: user, atSeconds: Self.seconds, now: Self.seconds)
      #expect(check.judge(said) == verdict)
    }
    let again = Self.command(attach, .token(try rig.token()))
    #expect(check.judge(again, later: .seconds(1)) == refused(.revoked))
  }

  @Test("an app's server is believed by its token alone, for what is meant for it, in its app")
  func serverTokens() throws {
    let check = rig.check()
    let server = Credential.token(try rig.serverToken())
    let requests: [Command.Body] = [
      .app(.user), .app(.calls(shard: 0)), .app(.call(Self.call)), .app(.end(Self.call)),
      .app(.remove("phone")), .app(.name), .app(.setName("Ann")), .rules(.read),
      .rules(.write(UserRules())), .history(.list(before: HistoryCursor(7), limit: 50)),
      .history(.markRead(upTo: HistoryCursor(7))), .app(.live(LiveCallsQuery(limit: 100))),
    ]
    for body in requests {
      let asked = Self.command(body, server, device: "")
      #expect(check.judge(asked) == .accepted, "\(body)")
      #expect(check.judge(asked, later: .seconds(60)) == refused(.expired), "\(body)")
      let foreign = Self.command(body, server, user: UserKey(app: "app", user: "ann"), device: "")
      #expect(check.judge(foreign) == refused(.notAccepted), "\(body)")
    }
    // It is nobody's device.
    for body: Command.Body in [
      attach, .call(Self.call, .decline(.everywhere)), .unregister("phone"),
      .register(RegistrationRequest()), .place(PlaceRequest(call: Self.call)), .calls(shard: 0),
      // Only shards add entries to a history.
      .history(.changed),
    ] { #expect(check.judge(Self.command(body, server)) == refused(.forbidden), "\(body)") }
    // The end of its key ends it.
    rig.tokens.replace(keys: AppKeys.generateDevelopment(app: "demo").0)
    let ended = Self.command(.app(.user), server, device: "")
    #expect(check.judge(ended) == refused(.notAccepted))
  }

  @Test("an edge has nothing but a server's token by which it could speak for an app's server")
  func nobodyElseIsAServer() throws {
    for mode in [SessionTickets.required, .offered] {
      let check = rig.check(mode)
      let ticket = Credential.ticket(try check.ticket(rig))
      let end = Command.Body.app(.end(Self.call))
      let user = Self.command(end, .token(try rig.token()))
      #expect(check.judge(user) == refused(.forbidden))
      for credential in [ticket, .none, .pushCapability("AAAA")] {
        #expect(check.judge(Self.command(end, credential)) == refused(.notAccepted))
      }
      // The user's own rules are the session's to set.
      #expect(check.judge(Self.command(.rules(.read), ticket)) == .accepted)
    }
  }

  @Test("a void ticket still ends its session, and does nothing else", arguments: [0, 1, 2])
  func ends(way: Int) throws {
    let check = rig.check()
    let ticket = Credential.ticket(try check.ticket(rig))
    switch way {
    case 0: rig.tokens.replace(keys: AppKeys.generateDevelopment(app: "demo").0)
    case 1: rig.tokens.revoke(app: "demo", user: "ann", atSeconds: Self.seconds, now: Self.seconds)
    default: break
    }
    let later = Span.seconds(way == 2 ? 700 : 0)
    for body in [Command.Body.sessionClosed(graceful: false), .callerGone([Self.call])] {
      #expect(check.judge(Self.command(body, ticket), later: later) == .accepted)
      let other = Self.command(body, ticket, device: "tablet")
      #expect(check.judge(other, later: later) == .unknownSession)
    }
    let hangUp = Self.command(.call(Self.call, .hangUp), ticket)
    #expect(check.judge(hangUp, later: later) == .unknownSession)
  }

  @Test("tokens of others, of nobody, and of yesterday") func badTokens() throws {
    let check = rig.check()
    for text in [
      try rig.token("bob"), try rig.token(device: "tablet"), try Rig().token(), "", "a.b.c",
      String(repeating: "x", count: 100_000),
    ] { #expect(check.judge(Self.command(attach, .token(text))) == refused(.notAccepted)) }
    let good = Self.command(attach, .token(try rig.token(device: "phone", kid: "dev-hs256")))
    #expect(check.judge(good) == .accepted)
    #expect(check.judge(good, later: .seconds(600)) == refused(.expired))
  }

  @Test("what a push allows: three commands, for its call and its device")
  func capabilities() throws {
    let check = rig.check()
    let text = try #require(rig.push.current).mint(
      PushCapability(
        app: "demo", user: "ann", device: "phone", call: Self.call.bytes,
        expires: Self.seconds + 60))
    let credential = Credential.pushCapability(text)
    for body: Command.Body in [
      .call(Self.call, .decline(.everywhere)), .call(Self.call, .busy), query,
    ] { #expect(check.judge(Self.command(body, credential)) == .accepted) }
    for body: Command.Body in [
      .call(CallID(high: 1, low: 3), .decline(.here)), hangUp,
      .call(Self.call, .answer(description: "")), .attach(Attach(announce: true)),
      .unregister("phone"),
    ] { #expect(check.judge(Self.command(body, credential)) == refused(.notAccepted)) }
    let busy = Command.Body.call(Self.call, .busy)
    for other in [
      Self.command(busy, credential, device: "tablet"),
      Self.command(busy, credential, user: Self.bob),
    ] { #expect(check.judge(other) == refused(.notAccepted)) }
    // A call that was diverted to the user is in another one's shard, which knows whom it rings.
    var elsewhere = Self.command(busy, credential)
    elsewhere.callee = Self.bob
    #expect(check.judge(elsewhere) == .accepted)
    elsewhere.callee = UserKey(app: "other", user: "bob")
    #expect(check.judge(elsewhere) == refused(.notAccepted))
  }

  @Test("an edge proves its number") func edges() {
    let check = rig.check()
    for _ in 0..<2 { #expect(check.isEdge(Self.edge, Self.secret)) }
    #expect(!check.isEdge(Self.edge, EdgeSecret(high: 3, low: 5)))
    #expect(!check.isEdge(Self.edge, nil))
    #expect(!check.isEdge(77, Self.secret))
  }

  @Test("an edge asks about nobody without a ticket") func reach() {
    let check = rig.check()
    let question = Command.reachabilityProbe(9, session: SessionRef(edge: Self.edge, number: 5))
    #expect(check.judge(question) == .accepted)
    for change: (inout Command) -> Void in [
      { $0.user = Self.ann }, { $0.body = .call(CallID(high: 0, low: 9), .hangUp) },
      { $0.body = .call(Self.call, .query) },
    ] {
      var other = question
      change(&other)
      #expect(check.judge(other) == .unknownSession)
    }
  }

  @Test("what is remembered has a bound") func bounds() throws {
    let check = rig.check()
    let key = try rig.tokens.verify(try rig.token(), now: Self.seconds).keyNumber
    let keys = try #require(rig.tickets.current)
    for number in 0..<10_000 {
      var said = Self.command(query, user: UserKey(app: "demo", user: "u\(number)"))
      said.credential = .ticket(keys.ticket(for: said, expires: .max, issued: 1, key: key))
      #expect(check.judge(said) == .accepted)
      let secret = EdgeSecret(high: UInt64(number), low: 1)
      #expect(check.isEdge(EdgeNumber.of(secret: secret.high, secret.low), secret))
    }
    #expect(check.remembered.tickets <= 4096 && check.remembered.edges <= 1024)
  }

  @Test("during an upgrade edges without tickets are believed, bad tickets are not")
  func offered() throws {
    let check = rig.check(.offered)
    #expect(check.isEdge(77, nil))
    #expect(!check.isEdge(77, Self.secret))
    #expect(check.judge(Self.command(hangUp)) == .accepted)
    let forged = SessionTicket(high: 1, low: 2, expires: .max, issued: 1)
    #expect(check.judge(Self.command(hangUp, .ticket(forged))) == .unknownSession)
    #expect(check.judge(Self.command(attach, .token("a.b.c"))) == refused(.notAccepted))
    _ = try check.ticket(rig)
  }
}
