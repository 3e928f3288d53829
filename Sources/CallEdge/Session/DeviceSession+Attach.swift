package import CallAuth
package import CallCore
import CallWire

/// The attach: from the device's request to the shard's reply.
extension DeviceSession {
  mutating func attach(_ request: AttachRequest, id: UInt64, _ turn: inout Turn) {
    guard id > 0 else { return turn.refuse(0, .missingID) }
    if rules.isDraining, case .connected = phase {
      turn.refuse(id, CallError(.draining))
      return close(.goAway, &turn)
    }
    switch phase {
    case .connected(let claims):
      if !request.token.isEmpty {
        phase = .authenticating(claims, request: id, request)
        turn.actions.append(.authenticate(token: request.token))
      } else if let claims {
        attach(request, id: id, claims: claims, &turn)
      } else {
        failAttach(id, CallError(.notAccepted), &turn)
      }
    case .authenticating(_, let former, _), .attaching(_, let former, _, _):
      // A retransmission needs no answer of its own.
      if former != id { turn.refuse(id, CallError(.alreadyAttached)) }
    case .attached:
      turn.refuse(id, CallError(.alreadyAttached))
    case .closing:
      break
    }
  }

  /// The answer to `authenticate`.
  package mutating func authenticated(_ result: Result<DeviceClaims, CallError>, _ turn: inout Turn)
  {
    guard case .authenticating(let former, let id, var request) = phase else { return }
    phase = .connected(former)
    switch result {
    case .success(let claims):
      credential = .token(request.token)
      request.token = ""
      attach(request, id: id, claims: claims, &turn)
    case .failure(let error):
      failAttach(id, error, &turn)
    }
  }

  private mutating func attach(
    _ request: AttachRequest, id: UInt64, claims: DeviceClaims, _ turn: inout Turn
  ) {
    let device: DeviceID
    switch DeviceID.resolve(claimed: claims.device, named: request.device) {
    case .success(let resolved): device = resolved
    case .failure(let error): return failAttach(id, error, &turn)
    }
    let user = UserKey(app: claims.app, user: claims.user)
    if let known = sentIdentity, known.user != user || known.device != device {
      // An earlier attach of this session may have reached a shard: it cannot become another's.
      let error = CallError(.forbidden, "This connection has attached as another device.")
      return failAttach(id, error, &turn)
    }
    let identity = Identity(
      user: user, device: device, deviceName: request.deviceName, name: claims.name,
      client: request.client, attachedAt: turn.now, wantsNearer: request.wantsNearer,
      onlyPlaces: request.onlyPlaces,
      wantsOngoing: request.wantsOngoing && rules.showsOngoing(user.app),
      wantsHistory: request.wantsHistory && rules.keepsHistory(user.app),
      wantsRelays: request.wantsRelays)
    sentIdentity = identity
    grant = TokenGrant(claims)
    phase = .attaching(claims, request: id, request, identity)
    pendingCount += 1
    let attach = Attach(
      forCall: request.forCall, deviceName: request.deviceName, client: request.client,
      attachedAt: turn.now, onlyPlaces: request.onlyPlaces,
      ongoing: identity.wantsOngoing ? OngoingMark() : nil,
      history: identity.wantsHistory ? HistoryMark() : nil, userName: userName)
    turn.actions.append(.forward(request: id, callee: user, .attach(attach)))
  }

  /// Refuses an attach. It counts as an unreadable frame does, which limits how many tokens a peer can try.
  mutating func failAttach(_ id: UInt64, _ error: CallError, _ turn: inout Turn) {
    turn.refuse(id, error)
    countAgainstPeer(&turn)
  }

  /// The time until the first ping: a point in the second half of the interval that depends on the session's
  /// number. Without that spread, devices that attach at the same moment, as after the end of an edge, would
  /// be pinged at the same moment for ever, and a call would wait for thousands of pings.
  private var untilFirstPing: Span {
    let half = max(1, rules.configuration.pingInterval.microseconds / 2)
    return Span(microseconds: half + spread(over: half))
  }

  /// A number from 0 that is less than `range` and depends on the session's number.
  func spread(over range: Int64) -> Int64 {
    // The multiplier is 2^64 divided by the golden ratio: numbers in turn lie apart.
    let scattered = (number &* 0x9E37_79B9_7F4A_7C15) >> 16
    return Int64(scattered % UInt64(max(1, range)))
  }

  mutating func attachReplied(
    _ reply: Reply, claims: DeviceClaims, identity: Identity, now: Timestamp
  ) -> ServerReply {
    guard case .attached(let forCall, let ticket, let ongoing) = reply else {
      phase = .connected(claims)
      deadline = now + rules.configuration.peers.attachTimeout
      return ServerReply(reply, device: identity.device)
    }
    phase = .attached(identity)
    if let gate = rules.apps?.gate(of: identity.user.app) { rate = SessionRate(gate.limits, rules) }
    credential = ticket.map { .ticket($0) } ?? .none
    deadline = now + untilFirstPing
    hasReceived = false
    if let ongoing {
      shown = OngoingMark(
        version: max(shown.version, ongoing.version), showsCalls: !ongoing.calls.isEmpty)
    }
    return .attached(
      AttachedInfo(
        session: SessionRef(edge: rules.edge, number: number).description,
        user: identity.user.user, device: identity.device,
        pingSeconds: UInt32(clamping: rules.configuration.pingInterval.microseconds / 1_000_000),
        serverTime: now, forCall: forCall,
        nearer: identity.wantsNearer ? rules.nearer.address(for: identity.user) : "",
        ongoing: ongoing, relays: makeRelays(of: identity, now: now),
        deviceName: identity.deviceName))
  }
}
