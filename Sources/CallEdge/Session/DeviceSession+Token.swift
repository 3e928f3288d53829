package import CallAuth
package import CallCore
internal import CallWire

/// The session's token: its expiry, its renewal, and its revocation.
extension DeviceSession {
  /// Warns the device before its token expires, and closes the session when it has.
  /// - Returns: whether the session has ended.
  mutating func checkTokenExpiry(_ turn: inout Turn) -> Bool {
    let seconds = turn.now.microseconds / 1_000_000
    guard seconds < Int64(grant.expires) else {
      close(.tokenExpired, &turn)
      return true
    }
    if seconds >= Int64(grant.warnsAt) {
      grant.warnsAt = .max
      turn.actions.append(
        .notice(
          Notice(
            kind: .tokenExpires,
            message: "The token expires in \(Int64(grant.expires) - seconds) s. Renew it.")))
    }
    return false
  }

  mutating func renew(_ token: String, id: UInt64, _ turn: inout Turn) {
    guard isAttached else { return turn.refuse(id, CallError(.notAttached)) }
    turn.actions.append(.authenticateRenewal(request: id, token: token))
  }

  /// The answer to `authenticateRenewal`. A token that is refused leaves the session as it is.
  package mutating func renewed(
    _ request: UInt64, _ token: String, _ result: Result<DeviceClaims, CallError>,
    _ turn: inout Turn
  ) {
    guard case .attached(var identity) = phase else { return }
    do throws(CallError) {
      let claims = try result.get()
      guard UserKey(app: claims.app, user: claims.user) == identity.user else {
        throw CallError(.forbidden, "The token is another user's.")
      }
      _ = try DeviceID.resolve(claimed: claims.device, named: identity.device.text).get()
      identity.name = claims.name
      phase = .attached(identity)
      guard case .ticket = credential else {
        // The coordinator is of a former version, and gives no tickets.
        grant = TokenGrant(claims)
        return turn.reply(request, .done)
      }
      // The ticket ends with the token: the session needs one for the new token, too.
      guard pendingCount < rules.configuration.commandsPendingPerSession else {
        return turn.refuse(request, tooManyPending)
      }
      pendingCount += 1
      // Announced, since the device may have attached elsewhere meanwhile: the renewal must not replace that
      // session.
      turn.actions.append(
        .forwardRenewal(
          request: request, callee: identity.user, announcement(of: identity), token: token))
    } catch {
      failAttach(request, error, &turn)
    }
  }

  /// The shard's answer to `forwardRenewal`.
  mutating func renewalReplied(
    _ request: UInt64, _ reply: Reply, of identity: Identity, _ turn: inout Turn
  ) {
    guard case .attached(_, let ticket, _) = reply else {
      return turn.reply(request, ServerReply(reply, device: identity.device))
    }
    guard let ticket else { return turn.refuse(request, CallError(.tryAgain)) }
    credential = .ticket(ticket)
    grant = TokenGrant(ticket)
    turn.reply(request, .done)
  }

  /// Keys or revocations have changed: ends a session whose token is no longer valid.
  package mutating func recheckToken(_ tokens: TokenAuthority, _ turn: inout Turn) {
    let isGood: Bool
    switch phase {
    case .connected(let claims), .authenticating(let claims, _, _):
      isGood = claims.map { Self.isInForce(TokenGrant($0), $0.app, $0.user, tokens) } ?? true
    case .attaching(_, _, _, let identity), .attached(let identity):
      isGood = Self.isInForce(grant, identity.user.app, identity.user.user, tokens)
    case .closing: return
    }
    if !isGood { close(.revoked, &turn) }
  }

  private static func isInForce(
    _ grant: TokenGrant, _ app: String, _ user: String, _ tokens: TokenAuthority
  ) -> Bool {
    tokens.isInForce(
      app: app, user: user, issuedAtSeconds: Int64(grant.issued), keyNumber: grant.key)
  }
}

/// The data that a session keeps of its token, in 16 bytes. All times are seconds since 1970.
package struct TokenGrant: Equatable {
  let expires: UInt32
  /// When the device is warned that it expires; `max`: it was.
  var warnsAt: UInt32
  let issued: UInt32
  let key: UInt32

  /// The longest time before its expiry at which the device is warned, in seconds.
  static let warningSeconds: Int64 = 60

  /// The grant of a session that has not attached.
  static let none = TokenGrant(DeviceClaims(app: "", user: "", device: nil, expiresAtSeconds: 0))

  package init(_ claims: DeviceClaims) {
    self.init(
      expires: UInt32(clamping: claims.expiresAtSeconds),
      issued: UInt32(clamping: claims.issuedAtSeconds), key: claims.keyNumber)
  }

  /// The token for which a ticket was given.
  package init(_ ticket: SessionTicket) {
    self.init(expires: ticket.expires, issued: ticket.issued, key: ticket.key)
  }

  private init(expires: UInt32, issued: UInt32, key: UInt32) {
    self.expires = expires
    self.issued = issued
    self.key = key
    let lifetime = max(0, Int64(expires) - Int64(issued))
    warnsAt = UInt32(clamping: Int64(expires) - min(Self.warningSeconds, lifetime / 4))
  }
}
