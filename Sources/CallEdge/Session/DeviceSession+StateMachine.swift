import CallAuth
package import CallCore
package import CallWire

// MARK: What the device says

extension DeviceSession {
  /// Anything at all arrived.
  package mutating func heardFromDevice() { heard = true }

  /// - Parameter bytes: of the frame.
  package mutating func received(
    _ frame: ClientFrame, bytes: Int = 0, now: Timestamp, into actions: inout [Action]
  ) {
    if case .closing = phase { return }
    if let error = takeRate(cost: frame.command.rateCost, bytes: bytes, now: now) {
      return refuse(frame.id, error, now: now, into: &actions)
    }
    refusals = 0
    switch frame.command {
    case .ack(let items):
      acknowledge(items, request: frame.id, into: &actions)
    case .detach:
      actions.append(.reply(frame.id, .done))
      endsGracefully = true
      close(.normal, now: now, into: &actions)
    case .attach(let request):
      attach(request, id: frame.id, now: now, into: &actions)
    case .ping:
      actions.append(.reply(frame.id, isAttached ? .done : .error(CallError(.notAttached))))
    case .calls: askForCalls(frame.id, now: now, into: &actions)
    case .renew(let token): renew(token, id: frame.id, into: &actions)
    case .register, .unregister, .place, .call: forward(frame, into: &actions)
    }
  }

  /// A frame was refused by its form.
  ///
  /// One that could not even be read speaks against the peer. One that was read and holds something
  /// that cannot be (a user id that a person mistyped, a command of a later version) is a command like
  /// others: it counts against the rate alone, or a good client would lose its session in time.
  package mutating func received(
    bad error: FrameError, now: Timestamp, into actions: inout [Action]
  ) {
    if case .closing = phase { return }
    guard error.error.code.isUnreadable else {
      return refuse(error, now: now, into: &actions)
    }
    actions.append(.reply(error.id, .error(error.error)))
    countAgainstPeer(now: now, into: &actions)
  }

  private mutating func refuse(
    _ error: FrameError, now: Timestamp, into actions: inout [Action]
  ) {
    if let limited = takeRate(cost: 1000, bytes: 0, now: now) {
      return refuse(error.id, limited, now: now, into: &actions)
    }
    refusals = 0
    actions.append(.reply(error.id, .error(error.error)))
  }

  /// A frame that could not be read, or an attach that was refused: not without end. One is forgiven
  /// for every `SessionRules.badFrameForgivenAfter`.
  mutating func countAgainstPeer(now: Timestamp, into actions: inout [Action]) {
    if patience.take(cost: rules.badFrameCost, perSecond: 1, burst: rules.patience, now: now) != nil
    {
      close(.tooManyBadFrames, now: now, into: &actions)
    }
  }

  /// The peer sent a close frame. Only a normal closure is a goodbye: a browser says "going away"
  /// when a page is loaded again.
  package mutating func receivedClose(
    code: UInt16?, now: Timestamp, into actions: inout [Action]
  ) {
    if case .closing = phase {
    } else {
      endsGracefully = code == CloseReason.normal.rawValue
      close(.normal, now: now, into: &actions)
    }
    actions.append(.abort)
  }

  /// The peer broke the WebSocket protocol: what follows cannot be understood.
  package mutating func receivedViolation(
    _ reason: CloseReason, now: Timestamp, into actions: inout [Action]
  ) {
    if case .closing = phase { return }
    close(reason, within: rules.lingerTimeout, now: now, into: &actions)
  }

  /// More waits to be sent than the device may let wait. It may be reading, too slowly: what waits and
  /// the close frame behind it are kept for a while, and nothing is added.
  package mutating func fellBehind(now: Timestamp, into actions: inout [Action]) {
    if case .closing = phase { return }
    close(.slowConsumer, within: rules.lingerTimeout, now: now, into: &actions)
  }

  private mutating func refuse(
    _ id: UInt64, _ error: CallError, now: Timestamp, into actions: inout [Action]
  ) {
    refusals += 1
    actions.append(.reply(id, .error(error)))
    if refusals >= rules.refusalsMax { close(.tooManyCommands, now: now, into: &actions) }
  }

  /// - Parameter timeout: how long the peer may take; nil: `SessionRules.closeTimeout`.
  mutating func close(
    _ reason: CloseReason, within timeout: Span? = nil, now: Timestamp,
    into actions: inout [Action]
  ) {
    phase = .closing(until: now + (timeout ?? rules.closeTimeout))
    actions.append(.close(reason))
  }
}

// MARK: Commands

extension DeviceSession {
  private mutating func forward(_ frame: ClientFrame, into actions: inout [Action]) {
    guard case .attached(let identity) = phase else {
      return actions.append(.reply(frame.id, .error(CallError(.notAttached))))
    }
    guard frame.id > 0 else {
      return actions.append(.reply(0, .error(.missingID)))
    }
    guard pendingCount < rules.commandsPendingMax else {
      return actions.append(.reply(frame.id, .error(tooManyPending)))
    }
    if case .place(let address, _) = frame.command,
      !placedCalls.contains(where: { $0.call == address.call && $0.counts }),
      let refusal = refusalToPlace
    {
      return actions.append(.reply(frame.id, .error(refusal)))
    }
    do throws(CallError) {
      guard let (callee, body) = try command(frame.command, of: identity) else { return }
      pendingCount += 1
      actions.append(.forward(request: frame.id, callee: callee, body))
    } catch {
      actions.append(.reply(frame.id, .error(error)))
    }
  }

  var tooManyPending: CallError {
    CallError(
      .rateLimited, "At most \(rules.commandsPendingMax) commands wait for their replies.",
      retryAfterMilliseconds: 1000)
  }

  /// Why no further call is placed from here.
  private var refusalToPlace: CallError? {
    if rules.isDraining { return CallError(.draining) }
    return rules.limits.refusalToPlace(liveCallsPlaced: placedCalls.count(where: \.counts))
  }

  /// nil for what is no command to a shard.
  private mutating func command(_ command: ClientCommand, of identity: Identity)
    throws(CallError) -> (callee: UserKey, body: Command.Body)?
  {
    func callee(_ address: CallAddress) -> UserKey { address.calleeKey(for: identity.user) }
    switch command {
    case .attach, .detach, .ack, .ping, .calls, .renew: return nil
    case .register(let request):
      return (identity.user, .register(try request.prepared(for: identity.user)))
    case .unregister(let device): return (identity.user, .unregister(device ?? identity.device))
    case .place(let address, var request):
      request.call = address.call
      request.deviceName = identity.deviceName
      asked(for: address.call, callee: callee(address))
      return (callee(address), .place(request))
    case .call(let address, let verb):
      if verb == .resume { asked(for: address.call, callee: callee(address)) }
      return (callee(address), .call(address.call, verb))
    }
  }

  private func acknowledge(
    _ items: [AckItem], request: UInt64, into actions: inout [Action]
  ) {
    guard case .attached(let identity) = phase else {
      return actions.append(.reply(request, .error(CallError(.notAttached))))
    }
    // Nearly always one call, or calls of one callee.
    var rest = items[...]
    while let first = rest.first {
      let callee = first.call.calleeKey(for: identity.user)
      let run = rest.prefix { $0.call.callee.hasBytes(of: first.call.callee) }
      actions.append(
        .acknowledge(
          callee: callee,
          run.map { Acknowledgement(call: $0.call.call, version: $0.version) }))
      rest = rest.dropFirst(run.count)
    }
  }
}

// MARK: What the cluster says

extension DeviceSession {
  /// A command was answered: by its shard, or by the edge itself where it could not be sent.
  package mutating func replied(
    request: UInt64, to body: Command.Body, _ reply: Reply, now: Timestamp,
    into actions: inout [Action]
  ) {
    pendingCount -= min(1, pendingCount)
    if case .closing = phase { return }
    if case .attach = body {
      if case .attached(let identity) = phase {
        return renewalReplied(request, reply, of: identity, into: &actions)
      }
      guard case .attaching(let claims, request, _, let identity) = phase else { return }
      let answer = attachReplied(reply, claims: claims, identity: identity, now: now)
      return actions.append(.reply(request, answer))
    }
    noteCall(reply)
    notePlaced(by: reply, to: body)
    guard let identity = mayBeKnown else { return }
    let answer = ServerReply(reply, device: identity.device)
    actions.append(
      reply.isNews(to: body) ? .reply(request, answer) : .replyLazily(request, answer))
  }

  /// A forwarded command was under way already: there will be one reply, not two.
  package mutating func wasRepeated(_ body: Command.Body) {
    pendingCount -= min(1, pendingCount)
    noteAnswered(body)
  }

  /// A forwarded command could not be taken: it has left for nobody.
  package mutating func wasRefused(
    request: UInt64, _ body: Command.Body, _ error: CallError, now: Timestamp,
    into actions: inout [Action]
  ) {
    noteRefused(body)
    replied(request: request, to: body, .error(error), now: now, into: &actions)
  }

  /// A delivery passes. False when the session takes none any more.
  package mutating func willDeliver(_ delivery: Delivery) -> Bool {
    if case .closing = phase { return false }
    switch delivery.event {
    case .invite(let invite): inCallUntil = max(inCallUntil, invite.deadline)
    case .stop:
      inCallUntil = Timestamp(microseconds: 0)
      forget(delivery.call)
    case .ringing, .answered, .signal: noteHeard(of: delivery.call)
    }
    return true
  }

  /// The shard, or the node itself, ends the session.
  package mutating func asked(
    toClose notice: Notice, now: Timestamp, into actions: inout [Action]
  ) {
    if case .closing = phase { return }
    actions.append(.notice(notice))
    close(CloseReason(notice.kind), now: now, into: &actions)
  }

  private mutating func noteCall(_ reply: Reply) {
    switch reply {
    case .answer(won: true, _): inCallUntil = .distantFuture
    case .call(let state) where state.phase == .ended: inCallUntil = Timestamp(microseconds: 0)
    case .call, .answer, .attached, .registered, .calls, .done, .error: break
    }
  }
}

// MARK: Time, and the end

extension DeviceSession {
  /// Carries out what is due: once a second is often enough.
  package mutating func tick(now: Timestamp, into actions: inout [Action]) {
    switch phase {
    case .closing(let until):
      if until <= now { actions.append(.abort) }
    case .connected, .authenticating:
      if deadline <= now { close(.attachTimeout, now: now, into: &actions) }
    case .attaching:
      // The outbox answers each command in time.
      break
    case .attached:
      if tendToken(now: now, into: &actions) { return }
      guard deadline <= now else { return }
      if heard { pingsOpen = 0 }
      heard = false
      deadline = now + rules.pingInterval
      if Int(pingsOpen) >= rules.pingsMissedMax {
        close(.pingTimeout, now: now, into: &actions)
        actions.append(.abort)
      } else {
        pingsOpen += 1
        actions.append(.ping)
      }
    }
  }

  /// The session is over. What the cluster must hear, once; nil when no shard knows the session.
  package mutating func takeFarewell() -> Farewell? {
    guard let identity = mayBeKnown else { return nil }
    mayBeKnown = nil
    var calls: [UserKey: [CallID]] = [:]
    for placed in placedCalls { calls[placed.callee, default: []].append(placed.call) }
    placedCalls = []
    return Farewell(
      user: identity.user, device: identity.device, credential: credential,
      graceful: endsGracefully, calls: calls)
  }
}

extension Reply {
  /// Whether it tells the device more than that its word arrived. A device that reports that it rings,
  /// or that its media flows, goes on with what it does; unless the call is over.
  fileprivate func isNews(to command: Command.Body) -> Bool {
    switch (command, self) {
    case (.call(_, .alerting), .call(let state)): state.phase != .ringing
    case (.call(_, .connected), .done): false
    default: true
    }
  }
}

extension ClientCommand {
  /// Of the session's rate, in thousandths of a command. Acknowledgements answer what the cluster sent,
  /// and pings cost it nothing: they count a tenth.
  fileprivate var rateCost: Int64 {
    switch self {
    case .ack, .ping: 100
    default: 1000
    }
  }
}

extension CallError.Code {
  /// Whether a frame with this error told nothing at all: it was no message of the protocol.
  fileprivate var isUnreadable: Bool {
    self == .malformedFrame || self == .frameTooLarge || self == .wrongFrameType
  }
}
