public import CallAuth
package import CallCore
internal import CallTelemetry

/// Authenticates the commands of edges before a shard sees them: whether the edge is who it claims to be, and whether
/// it may speak for the user.
///
/// A session shows its token once, when it attaches, and gets a ticket in return, which is valid at every coordinator.
/// Each worker has an authenticator; its caches save work and never decide.
package struct CommandAuthenticator {
  package enum Verdict: Equatable {
    case accepted
    case refused(CallError)
    /// The session must attach again, with a token.
    case unknownSession
  }

  /// A ticket that was verified, and the command fields for which it is valid.
  private struct Verified {
    var ticket: SessionTicket
    var edge: UInt64
    var user: UserKey
    var device: DeviceID
    /// The generation of the tokens when it was verified.
    var generation: UInt64
  }

  /// How far behind an edge's clock may be.
  package static let leewaySeconds: Int64 = 60
  private static let edgesMax = 1024
  /// A power of two. A ticket has one place in the cache. Policy: the last one stays.
  private static let ticketsMax = 4096

  private let authority: CommandAuthority?
  /// Whether edges without tickets are accepted.
  private let trustsAll: Bool
  private var secrets: [UInt64: EdgeSecret] = [:]
  private var verified: [Verified?]
  private let metrics: CoordinatorMetrics

  package init(
    _ authority: CommandAuthority?, _ tickets: SessionTickets, _ metrics: CoordinatorMetrics
  ) {
    self.authority = authority
    self.metrics = metrics
    trustsAll = tickets == .offered
    verified = authority == nil ? [] : Array(repeating: nil, count: Self.ticketsMax)
  }

  /// Whether the sender is the edge with that number.
  package mutating func isEdge(_ edge: UInt64, _ secret: EdgeSecret?) -> Bool {
    guard let secret else { return trustsAll }
    if secrets[edge] == secret { return true }
    guard EdgeNumber.of(secret: secret.high, secret.low) == edge else { return false }
    if secrets.count >= Self.edgesMax { secrets.removeAll(keepingCapacity: true) }
    secrets[edge] = secret
    return true
  }

  /// Authenticates a command of an edge. In an attach, a ticket replaces the token.
  package mutating func authenticate(_ command: inout Command, now: Timestamp) -> Verdict {
    let seconds = now.microseconds / 1_000_000
    if case .app = command.body {
      // No session and no push stands for an app's server, so each of its commands shows the token.
      guard case .token = command.credential else { return .refused(CallError(.notAccepted)) }
    }
    switch command.credential {
    case .ticket(let ticket): return authenticate(ticket, of: command, seconds)
    case .token(let text): return authenticate(token: text, of: &command, seconds)
    case .pushCapability(let text): return authenticate(capability: text, of: command, seconds)
    case .none: return trustsAll || command.isReachabilityProbe ? .accepted : .unknownSession
    }
  }

  private mutating func authenticate(
    _ ticket: SessionTicket, of command: Command, _ now: Int64
  ) -> Verdict {
    guard let authority else { return trustsAll ? .accepted : .unknownSession }
    guard command.body.endsSession || now < Int64(ticket.expires) + Self.leewaySeconds else {
      return .unknownSession
    }
    let edge = command.session.edge
    let generation = authority.tokens.generation
    let place = Int(truncatingIfNeeded: ticket.low) & (Self.ticketsMax - 1)
    if let known = verified[place], known.ticket == ticket, known.edge == edge,
      known.generation == generation, known.device == command.device, known.user == command.user
    {
      return .accepted
    }
    guard let keys = authority.tickets.current else { return .refused(Self.notReady) }
    metrics.ticketsChecked.increment()
    guard keys.accepts(.init(high: ticket.high, low: ticket.low), of: ticket.facts(of: command))
    else { return .unknownSession }
    // A session often ends because its token is void.
    if command.body.endsSession { return .accepted }
    guard
      authority.tokens.isInForce(
        app: command.user.app, user: command.user.user, issuedAtSeconds: Int64(ticket.issued),
        keyNumber: ticket.key)
    else { return .unknownSession }
    verified[place] = Verified(
      ticket: ticket, edge: edge, user: command.user, device: command.device,
      generation: generation)
    return .accepted
  }

  private func authenticate(token: String, of command: inout Command, _ now: Int64) -> Verdict {
    guard let authority else { return trustsAll ? .accepted : .refused(CallError(.notAccepted)) }
    guard let keys = authority.tickets.current else { return .refused(Self.notReady) }
    metrics.tokensVerified.increment()
    let verified: TokenClaims
    do throws(AuthFailure) {
      verified = try authority.tokens.verifyAny(token, now: now)
    } catch {
      return .refused(CallError(error))
    }
    let claims: DeviceClaims
    switch verified {
    case .server(let server): return authenticate(server, of: command)
    case .device(let said): claims = said
    }
    if case .app = command.body { return .refused(CallError(AuthFailure.users)) }
    guard UserKey(app: claims.app, user: claims.user) == command.user,
      claims.device.map({ DeviceID($0) == command.device }) ?? true
    else { return .refused(CallError(.notAccepted)) }
    guard case .attach = command.body else { return .accepted }
    command.credential = .ticket(
      keys.ticket(
        for: command, expires: UInt32(clamping: claims.expiresAtSeconds),
        issued: UInt32(clamping: claims.issuedAtSeconds), key: claims.keyNumber))
    return .accepted
  }

  /// An app's server may send its own commands, for all users of its app. Of the devices' commands it may read and set
  /// rules, list a history and mark it as read. Only shards may report that an entry was added.
  private func authenticate(_ server: ServerClaims, of command: Command) -> Verdict {
    switch command.body {
    case .app, .rules, .history(.list), .history(.markRead): break
    default: return .refused(CallError(AuthFailure.servers))
    }
    // No app's name has two forms that are equal by Unicode's rules.
    guard server.app == command.user.app else { return .refused(CallError(.notAccepted)) }
    return .accepted
  }

  /// A push permits one device to decline its call, to answer busy, and to query it.
  private func authenticate(capability: String, of command: Command, _ now: Int64) -> Verdict {
    guard let authority else { return trustsAll ? .accepted : .refused(CallError(.notAccepted)) }
    guard let keys = authority.pushKeys.current else { return .refused(Self.notReady) }
    let allowed: PushCapability
    do throws(AuthFailure) {
      allowed = try keys.verify(capability, now: now - Self.leewaySeconds)
    } catch {
      return .refused(CallError(error))
    }
    let call: CallID
    switch command.body {
    case .call(let id, .decline), .call(let id, .busy), .call(let id, .query): call = id
    default: return .refused(CallError(.notAccepted))
    }
    // A call that was diverted to the user is in another one's shard.
    guard UserKey(app: allowed.app, user: allowed.user) == command.user,
      command.callee.app == command.user.app, DeviceID(allowed.device) == command.device,
      allowed.call == call.bytes
    else { return .refused(CallError(.notAccepted)) }
    return .accepted
  }

  /// For tests.
  package var remembered: (tickets: Int, edges: Int) {
    (verified.count { $0 != nil }, secrets.count)
  }

  private static var notReady: CallError { CallError(.tryAgain, retryAfterMilliseconds: 1000) }
}

extension CallError {
  /// The error that edges report for it.
  fileprivate init(_ failure: AuthFailure) {
    switch failure {
    case .expired: self.init(Code.expired)
    case .tooLong: self.init(Code.tokenTooLong)
    case .revoked: self.init(Code.revoked)
    case .notAccepted: self.init(Code.notAccepted)
    case .servers, .users: self.init(Code.forbidden)
    }
  }
}

extension SessionTicketKeys {
  /// A ticket for the sender of a command, valid through the edge that it came from.
  package func ticket(
    for command: Command, expires: UInt32, issued: UInt32, key: UInt32
  ) -> SessionTicket {
    var ticket = SessionTicket(high: 0, low: 0, expires: expires, issued: issued, key: key)
    let code = code(of: ticket.facts(of: command))
    (ticket.high, ticket.low) = (code.high, code.low)
    return ticket
  }
}

extension SessionTicket {
  package func facts(of command: Command) -> SessionTicketKeys.Facts {
    SessionTicketKeys.Facts(
      app: command.user.app, user: command.user.user, device: command.device.text,
      edge: command.session.edge, expires: expires, issued: issued, key: key)
  }
}

/// The keys by which a coordinator authenticates commands: of tokens, of session tickets, and of push capabilities.
public struct CommandAuthority: Sendable {
  public var tokens: TokenAuthority
  public var tickets: TicketKeyring
  public var pushKeys: PushKeyring

  public init(tokens: TokenAuthority, tickets: TicketKeyring, pushKeys: PushKeyring) {
    self.tokens = tokens
    self.tickets = tickets
    self.pushKeys = pushKeys
  }
}

extension Command.Body {
  /// Whether it says that a session is over, which takes nothing from anybody.
  fileprivate var endsSession: Bool {
    switch self {
    case .sessionClosed, .callerGone: true
    default: false
    }
  }
}
