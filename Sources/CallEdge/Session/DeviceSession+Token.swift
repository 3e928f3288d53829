package import CallAuth
package import CallCore
import CallWire

/// The session's token: its expiry, its renewal, and its revocation.
extension DeviceSession {
  /// Warns the device before its token expires, and closes the session when it has.
  /// - Returns: whether the session has ended.
  mutating func checkTokenExpiry(now: Timestamp, into actions: inout [Action]) -> Bool {
    let seconds = now.microseconds / 1_000_000
    guard seconds < Int64(grant.expires) else {
      close(.tokenExpired, now: now, into: &actions)
      return true
    }
    if seconds >= Int64(grant.warnsAt) {
      grant.warnsAt = .max
      actions.append(
        .notice(
          Notice(
            kind: .tokenExpires,
            message: "The token expires in \(Int64(grant.expires) - seconds) s. Renew it.")))
    }
    return false
  }

  mutating func renew(_ token: String, id: UInt64, into actions: inout [Action]) {
    guard isAttached else {
      return actions.append(.reply(id, .error(CallError(.notAttached))))
    }
    actions.append(.authenticateRenewal(request: id, token: token))
  }

  /// The answer to `authenticateRenewal`. A token that is refused leaves the session as it is.
  package mutating func renewed(
    _ request: UInt64, _ token: String, _ result: Result<DeviceClaims, CallError>, now: Timestamp,
    into actions: inout [Action]
  ) {
    guard case .attached(let identity) = phase else { return }
    do throws(CallError) {
      let claims = try result.get()
      guard UserKey(app: claims.app, user: claims.user) == identity.user else {
        throw CallError(.forbidden, "The token is another user's.")
      }
      _ = try DeviceID.resolve(claimed: claims.device, named: identity.device.text).get()
      guard case .ticket = credential else {
        // The coordinator is of a former version, and gives no tickets.
        grant = TokenGrant(claims)
        return actions.append(.reply(request, .done))
      }
      // The ticket ends with the token: the session needs one for the new token, too.
      guard pendingCount < rules.configuration.commandsPendingPerSession else {
        return actions.append(.reply(request, .error(tooManyPending)))
      }
      pendingCount += 1
      // Announced, since the device may have attached elsewhere meanwhile: the renewal must not replace that
      // session.
      let attach = Attach(
        deviceName: identity.deviceName, client: identity.client, announce: true,
        attachedAt: identity.attachedAt)
      actions.append(.forwardRenewal(request: request, callee: identity.user, attach, token: token))
    } catch {
      failAttach(request, error, now: now, into: &actions)
    }
  }

  /// The shard's answer to `forwardRenewal`.
  mutating func renewalReplied(
    _ request: UInt64, _ reply: Reply, of identity: Identity, into actions: inout [Action]
  ) {
    guard case .attached(_, let ticket) = reply else {
      return actions.append(.reply(request, ServerReply(reply, device: identity.device)))
    }
    guard let ticket else {
      return actions.append(.reply(request, .error(CallError(.tryAgain))))
    }
    credential = .ticket(ticket)
    grant = TokenGrant(ticket)
    actions.append(.reply(request, .done))
  }

  /// Keys or revocations have changed: a session whose token is not valid any more ends.
  package mutating func recheckToken(
    _ tokens: TokenAuthority, now: Timestamp, into actions: inout [Action]
  ) {
    let isGood: Bool
    switch phase {
    case .connected(let claims), .authenticating(let claims, _, _):
      isGood = claims.map { Self.isInForce(TokenGrant($0), $0.app, $0.user, tokens) } ?? true
    case .attaching(_, _, _, let identity), .attached(let identity):
      isGood = Self.isInForce(grant, identity.user.app, identity.user.user, tokens)
    case .closing: return
    }
    if !isGood { close(.revoked, now: now, into: &actions) }
  }

  private static func isInForce(
    _ grant: TokenGrant, _ app: String, _ user: String, _ tokens: TokenAuthority
  ) -> Bool {
    tokens.isInForce(
      app: app, user: user, issuedAtSeconds: Int64(grant.issued), keyNumber: grant.key)
  }
}
