package import CallAuth
package import CallCore
import CallWire

/// The attach: from the device's request to the shard's reply.
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
      // A retransmission needs no answer of its own.
      if former != id { actions.append(.reply(id, .error(CallError(.alreadyAttached)))) }
    case .attached:
      actions.append(.reply(id, .error(CallError(.alreadyAttached))))
    case .closing:
      break
    }
  }

  /// The answer to `authenticate`.
  package mutating func authenticated(
    _ result: Result<DeviceClaims, CallError>, now: Timestamp, into actions: inout [Action]
  ) {
    guard case .authenticating(let former, let id, var request) = phase else { return }
    phase = .connected(former)
    switch result {
    case .success(let claims):
      credential = .token(request.token)
      request.token = ""
      attach(request, id: id, claims: claims, now: now, into: &actions)
    case .failure(let error):
      failAttach(id, error, now: now, into: &actions)
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
    if let known = sentIdentity, known.user != user || known.device != device {
      // An earlier attach of this session may have reached a shard: it cannot become another's.
      let error = CallError(.forbidden, "This connection has attached as another device.")
      return failAttach(id, error, now: now, into: &actions)
    }
    let identity = Identity(
      user: user, device: device, deviceName: request.deviceName, client: request.client,
      attachedAt: now)
    sentIdentity = identity
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

  /// Refuses an attach. It counts as an unreadable frame does, so that nobody tries tokens without end.
  mutating func failAttach(
    _ id: UInt64, _ error: CallError, now: Timestamp, into actions: inout [Action]
  ) {
    actions.append(.reply(id, .error(error)))
    countAgainstPeer(now: now, into: &actions)
  }

  /// The time until the first ping: a point in the second half of the interval that depends on the session's
  /// number. Without that spread, devices that attach at the same moment, as after the end of an edge, would
  /// be pinged at the same moment for ever, and a call would wait for thousands of pings.
  private var untilFirstPing: Span {
    let half = UInt64(max(1, rules.configuration.pingInterval.microseconds / 2))
    // The multiplier is 2^64 divided by the golden ratio: numbers in turn lie apart.
    let scattered = (number &* 0x9E37_79B9_7F4A_7C15) >> 16
    return Span(microseconds: Int64(half + scattered % half))
  }

  mutating func attachReplied(
    _ reply: Reply, claims: DeviceClaims, identity: Identity, now: Timestamp
  ) -> ServerReply {
    guard case .attached(let forCall, let ticket) = reply else {
      phase = .connected(claims)
      deadline = now + rules.configuration.peers.attachTimeout
      return ServerReply(reply, device: identity.device)
    }
    phase = .attached(identity)
    if let gate = rules.apps?.gate(of: identity.user.app) { rate = SessionRate(gate.limits, rules) }
    credential = ticket.map { .ticket($0) } ?? .none
    deadline = now + untilFirstPing
    hasReceived = false
    return .attached(
      AttachedInfo(
        session: SessionRef(edge: rules.edge, number: number).description,
        user: identity.user.user, device: identity.device,
        pingSeconds: UInt32(clamping: rules.configuration.pingInterval.microseconds / 1_000_000),
        serverTime: now, forCall: forCall))
  }
}
