package import CallAuth
package import CallCore
import CallWire

// MARK: Attaching

extension DeviceSession {
  mutating func attach(
    _ request: AttachRequest, id: UInt64, now: Timestamp, into actions: inout [Action]
  ) {
    guard id > 0 else {
      return actions.append(.reply(0, .error(.missingID)))
    }
    if rules.isDraining, case .connected = phase {
      actions.append(.reply(id, .error(CallError(.draining))))
      return close(.goAway, now: now, into: &actions)
    }
    switch phase {
    case .connected(let claims):
      if !request.token.isEmpty {
        phase = .authenticating(claims, request: id, request)
        actions.append(.authenticate(token: request.token))
      } else if let claims {
        attach(request, id: id, claims: claims, now: now, into: &actions)
      } else {
        failAttach(id, CallError(.notAccepted), now: now, into: &actions)
      }
    case .authenticating(_, let former, _), .attaching(_, let former, _, _):
      // Said twice while the first is under way: one answer is enough.
      if former != id { actions.append(.reply(id, .error(CallError(.alreadyAttached)))) }
    case .attached:
      actions.append(.reply(id, .error(CallError(.alreadyAttached))))
    case .closing:
      break
    }
  }

  /// The answer to `authenticate`.
  package mutating func authenticated(
    _ result: Result<DeviceClaims, AuthFailure>, now: Timestamp, into actions: inout [Action]
  ) {
    guard case .authenticating(let former, let id, var request) = phase else { return }
    phase = .connected(former)
    switch result {
    case .success(let claims):
      credential = .token(request.token)
      request.token = ""
      attach(request, id: id, claims: claims, now: now, into: &actions)
    case .failure(let failure):
      failAttach(id, CallError(failure), now: now, into: &actions)
    }
  }

  private mutating func attach(
    _ request: AttachRequest, id: UInt64, claims: DeviceClaims, now: Timestamp,
    into actions: inout [Action]
  ) {
    let device: DeviceID
    switch DeviceID.resolve(claimed: claims.device, named: request.device) {
    case .success(let resolved): device = resolved
    case .failure(let error): return failAttach(id, error, now: now, into: &actions)
    }
    let user = UserKey(app: claims.app, user: claims.user)
    if let known = mayBeKnown, known.user != user || known.device != device {
      // An earlier attach of this session may have reached a shard: it cannot become another's.
      let error = CallError(.forbidden, "This connection has attached as another device.")
      return failAttach(id, error, now: now, into: &actions)
    }
    let identity = Identity(
      user: user, device: device, deviceName: request.deviceName, client: request.client,
      attachedAt: now)
    mayBeKnown = identity
    grant = TokenGrant(claims)
    phase = .attaching(claims, request: id, request, identity)
    pendingCount += 1
    actions.append(
      .forward(
        request: id, callee: user,
        .attach(
          Attach(
            forCall: request.forCall, deviceName: request.deviceName, client: request.client,
            attachedAt: now))))
  }

  /// Wrong tokens count as unreadable frames do, so that nobody tries them without end.
  mutating func failAttach(
    _ id: UInt64, _ error: CallError, now: Timestamp, into actions: inout [Action]
  ) {
    actions.append(.reply(id, .error(error)))
    countAgainstPeer(now: now, into: &actions)
  }

  /// At a moment in the second half of the interval that hangs on the session's number: what attached
  /// in one moment, as after the end of an edge, would be pinged in one moment for ever, and whoever
  /// rings then would have to wait for thousands of pings.
  private var untilFirstPing: Span {
    let half = UInt64(max(1, rules.pingInterval.microseconds / 2))
    // The multiplier is 2^64 divided by the golden ratio: numbers in turn lie apart.
    let scattered = (number &* 0x9E37_79B9_7F4A_7C15) >> 16
    return Span(microseconds: Int64(half + scattered % half))
  }

  mutating func attachReplied(
    _ reply: Reply, claims: DeviceClaims, identity: Identity, now: Timestamp
  ) -> ServerReply {
    guard case .attached(let forCall, let ticket) = reply else {
      phase = .connected(claims)
      deadline = now + rules.attachTimeout
      return ServerReply(reply, device: identity.device)
    }
    phase = .attached(identity)
    if let gate = rules.apps?.gate(of: identity.user.app) { rate = SessionRate(gate.limits, rules) }
    credential = ticket.map { .ticket($0) } ?? .none
    deadline = now + untilFirstPing
    heard = false
    return .attached(
      AttachedInfo(
        session: SessionRef(edge: rules.edge, number: number).description,
        user: identity.user.user, device: identity.device,
        pingSeconds: UInt32(clamping: rules.pingInterval.microseconds / 1_000_000),
        serverTime: now, forCall: forCall))
  }
}
