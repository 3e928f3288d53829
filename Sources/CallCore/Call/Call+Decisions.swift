/// What a call does with what devices say of it. Each decision changes facts through `commit`, then
/// tells who must hear of it.
extension Call {
  /// Who speaks, as this call knows them.
  enum Role {
    case caller
    case leg(Int)
    /// A device of the callee without a leg: it may join.
    case calleeDevice
    case stranger
  }

  func role(of user: UserKey, _ device: DeviceID) -> Role {
    guard user.app.hasBytes(of: facts.callee.app) else { return .stranger }
    // The caller first: who calls oneself speaks as the caller from the device that placed.
    if user.user.hasBytes(of: facts.caller.user), device == facts.caller.device { return .caller }
    guard user.user.hasBytes(of: facts.callee.user) else { return .stranger }
    if let leg = legIndex(device) { return .leg(leg) }
    return .calleeDevice
  }

  mutating func commit(
    _ change: JournalEntry.Change, _ urgency: Outcome.Urgency, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    outcome.entries.append(JournalEntry(call: id, change: change))
    outcome.raise(to: urgency)
    apply(change, at: context.now, epoch: context.epoch)
  }

  // MARK: The callee's devices

  mutating func alerting(_ leg: Int, _ context: CallContext, into outcome: inout Outcome) -> Reply {
    inviteHeard(leg, context, into: &outcome)
    guard case .ringing = stage, legs[leg].state.isLive else { return .call(state(for: .leg(leg))) }
    if legs[leg].state != .alerting {
      let first = !legs.contains { $0.state == .alerting }
      commit(.alerting(legs[leg].party.device), .relaxed, context, into: &outcome)
      if first { tellCaller(.ringing(by: legs[leg].party), context, into: &outcome) }
    }
    return .call(state(for: .leg(leg)))
  }

  mutating func answer(
    _ leg: Int, description: String, _ context: CallContext, into outcome: inout Outcome
  ) -> Reply {
    inviteHeard(leg, context, into: &outcome)
    if case .ringing = stage {
      guard legs[leg].state.isLive else {
        return .error(CallError(.wrongState, "This device declined, was busy or left."))
      }
      win(leg, description: description, context, into: &outcome)
    }
    return .answer(won: legs[leg].state == .won, state(for: .leg(leg)))
  }

  private mutating func win(
    _ leg: Int, description: String, _ context: CallContext, into outcome: inout Outcome
  ) {
    let losers = legs.indices.filter { $0 != leg && legs[$0].state.mayStillRing }
    let facts = AnsweredFacts(
      by: legs[leg].party, at: context.now, description: description,
      connectDeadline: context.now + context.limits.connectGrace)
    let early = legs[leg].signals
    commit(.answered(facts), .urgent, context, into: &outcome)
    tellCaller(
      .answered(Answered(by: facts.by, description: description, signals: early)), context,
      into: &outcome)
    for loser in losers {
      stop(leg: loser, Stop(reason: .answeredElsewhere, by: facts.by), context, into: &outcome)
      if legs[loser].ringsByPush { wantsPush = true }
    }
    if hasPushUnderWay { wantsPush = true }
    if callerLostUntil != nil {
      commit(
        .callerLost(until: context.now + context.limits.resumeGraceAnswered), .urgent, context,
        into: &outcome)
    }
  }

  /// - Parameter session: where it is said, and where the reply goes. An app that rings on a session of
  ///   its own is told there, too: what a push allows is used by another process of the phone.
  mutating func decline(
    _ leg: Int, _ scope: DeclineScope, on session: SessionRef, _ context: CallContext,
    into outcome: inout Outcome
  ) -> Reply {
    inviteHeard(leg, context, into: &outcome)
    guard case .ringing = stage, legs[leg].state.isLive else {
      return lateRefusal(leg)
    }
    let ringsOn = ringsBeside(session, leg)
    switch scope {
    case .everywhere:
      end(
        .declined, by: legs[leg].party, silent: ringsOn ? nil : .leg(leg), context, into: &outcome)
    case .here: refuse(leg, .declinedHere, ringsOn: ringsOn, context, into: &outcome)
    }
    return .call(state(for: .leg(leg)))
  }

  /// - Parameter session: as of a decline.
  mutating func busy(
    _ leg: Int, on session: SessionRef, _ context: CallContext, into outcome: inout Outcome
  ) -> Reply {
    inviteHeard(leg, context, into: &outcome)
    guard case .ringing = stage, legs[leg].state.isLive else {
      return lateRefusal(leg)
    }
    let ringsOn = ringsBeside(session, leg)
    refuse(leg, .busy, ringsOn: ringsOn, context, into: &outcome)
    return .call(state(for: .leg(leg)))
  }

  private func ringsBeside(_ session: SessionRef, _ leg: Int) -> Bool {
    legs[leg].told && legs[leg].endpoint.session != session
  }

  /// One device stops, the others ring on.
  private mutating func refuse(
    _ leg: Int, _ end: LegEnd, ringsOn: Bool, _ context: CallContext, into outcome: inout Outcome
  ) {
    commit(
      .legEnded(legs[leg].party.device, end, at: context.now), .urgent, context, into: &outcome)
    if ringsOn { tellRefuser(leg, context, into: &outcome) }
    endIfNobodyIsLeft(context, into: &outcome)
  }

  /// A device hears on its session that it declined, or was busy.
  mutating func tellRefuser(_ leg: Int, _ context: CallContext, into outcome: inout Outcome) {
    let reason: EndReason = legs[leg].state == .busy ? .busy : .declined
    stop(
      leg: leg, Stop(reason: reason, by: legs[leg].party), decided: legs[leg].leftAt, context,
      into: &outcome)
  }

  /// A decline or busy that comes too late changes nothing; the winner is told how to end its call.
  private func lateRefusal(_ leg: Int) -> Reply {
    if case .answered = stage, legs[leg].state == .won {
      return .error(CallError(.wrongState, "This device answered the call: hang up to end it."))
    }
    return .call(state(for: .leg(leg)))
  }

  // MARK: The caller

  /// - Parameter session: where it is said, and where the reply goes.
  mutating func cancel(
    on session: SessionRef, _ context: CallContext, into outcome: inout Outcome
  ) -> Reply {
    if case .ringing = stage {
      end(
        .cancelled, by: facts.caller, silent: hears(caller, on: session) ? .caller : nil, context,
        into: &outcome)
    }
    return .call(state(for: .caller))
  }

  // MARK: Both sides

  /// - Parameter session: where it is said, and where the reply goes.
  mutating func hangUp(
    _ role: Role, on session: SessionRef, _ context: CallContext, into outcome: inout Outcome
  ) -> Reply {
    switch (stage, role) {
    case (.ringing, .caller): return cancel(on: session, context, into: &outcome)
    case (.ringing, .leg), (.ringing, .calleeDevice):
      return .error(CallError(.wrongState, "The call is not answered: decline it instead."))
    case (.answered, .caller):
      end(
        .hungUp, by: facts.caller, silent: hears(caller, on: session) ? .caller : nil, context,
        into: &outcome)
    case (.answered, .leg(let leg)) where legs[leg].state == .won:
      let isSilent = hears(legs[leg].endpoint, on: session)
      end(
        .hungUp, by: legs[leg].party, silent: isSilent ? .leg(leg) : nil, context, into: &outcome)
    case (.answered, _), (.ended, _), (.ringing, .stranger): break
    }
    return .call(state(for: role))
  }

  /// Whether a device hears by the reply on a session what its command did. One that has begun another
  /// session since may have forgotten the call, and was told of it anew: it is told of the end, too.
  private func hears(_ endpoint: Endpoint, on session: SessionRef) -> Bool {
    endpoint.session.map { $0 == session } ?? true
  }

  mutating func connected(_ role: Role, _ context: CallContext, into outcome: inout Outcome)
    -> Reply
  {
    switch (stage, role) {
    case (.answered, .caller):
      if !callerConnected { commit(.connected(caller: true), .slow, context, into: &outcome) }
      return .done
    case (.answered, .leg(let leg)) where legs[leg].state == .won:
      if !winnerConnected { commit(.connected(caller: false), .slow, context, into: &outcome) }
      return .done
    case (.ringing, _): return .error(CallError(.wrongState, "Nobody has answered yet."))
    case (.answered, _), (.ended, _): return .call(state(for: role))
    }
  }

  /// A description or candidate: to the other side, or kept until there is one.
  ///
  /// Those of a leg that lost, and those after the end, are dropped: nobody could use them.
  /// - Parameter after: the sender's request that comes first and was not answered; 0: none.
  /// - Returns: nil where that one was lost on its way. Nothing is said then: the edge retransmits both,
  ///   in their order.
  mutating func signal(
    _ role: Role, request: UInt64, after: UInt64, on session: SessionRef, _ kind: SignalKind,
    _ body: String, _ context: CallContext, into outcome: inout Outcome
  ) -> Reply? {
    func isKnown(_ memory: inout SignalMemory) -> Bool {
      memory.isRepeat(request: request, on: session, kind, body)
    }
    func hasGap(_ memory: SignalMemory) -> Bool {
      after != 0 && !memory.contains(request: after, on: session)
    }
    switch role {
    case .caller:
      if isKnown(&callerSignalMemory) { return .done }
      if !isEnded, hasGap(callerSignalMemory) { return nil }
    case .leg(let leg):
      if isKnown(&legs[leg].signalMemory) { return .done }
      let isKept = isRinging ? legs[leg].state.isLive : !isEnded && legs[leg].state == .won
      if isKept, hasGap(legs[leg].signalMemory) { return nil }
    case .calleeDevice, .stranger: return .done
    }
    let reply = signal(role, request: request, kind, body, context, into: &outcome)
    if case .caller = role { callerSignalMemory.claim(session, request) }
    if case .leg(let leg) = role { legs[leg].signalMemory.claim(session, request) }
    return reply
  }

  private mutating func signal(
    _ role: Role, request: UInt64, _ kind: SignalKind, _ body: String, _ context: CallContext,
    into outcome: inout Outcome
  ) -> Reply {
    switch (stage, role) {
    case (.ringing, .caller):
      guard hasRoom(for: body, behind: callerSignals, context) else {
        return .error(context.limits.tooManySignals)
      }
      let signal = callerSignal(request, kind, body)
      commit(
        .signal(fromCaller: true, facts.caller.device, signal), .lazy, context, into: &outcome)
      for leg in legs.indices where legs[leg].state.isLive && legs[leg].told {
        tell(leg: leg, .signal(signal), context, into: &outcome)
      }
    case (.ringing, .leg(let leg)) where legs[leg].state.isLive:
      guard hasRoom(for: body, behind: legs[leg].signals, context) else {
        return .error(context.limits.tooManySignals)
      }
      commit(
        .signal(fromCaller: false, legs[leg].party.device, legSignal(leg, request, kind, body)),
        .lazy,
        context,
        into: &outcome)
    case (.answered, .caller):
      guard let winner, legs[winner].endpoint.outbox.count < context.limits.signalsWaiting else {
        return .error(context.limits.tooManySignals)
      }
      commit(
        .signal(fromCaller: true, facts.caller.device, callerSignal(request, kind, body)), .lazy,
        context,
        into: &outcome)
      legs[winner].endpoint.sendKept(context, into: &outcome)
    case (.answered, .leg(let leg)) where legs[leg].state == .won:
      guard caller.outbox.count < context.limits.signalsWaiting else {
        return .error(context.limits.tooManySignals)
      }
      commit(
        .signal(fromCaller: false, legs[leg].party.device, legSignal(leg, request, kind, body)),
        .lazy,
        context,
        into: &outcome)
      caller.sendKept(context, into: &outcome)
    case (.ringing, _), (.answered, _), (.ended, _): break
    }
    return .done
  }

  private func hasRoom(
    for body: String, behind signals: [Signal], _ context: CallContext
  ) -> Bool {
    signals.count < context.limits.signalsWaiting
      && signals.reduce(body.utf8.count) { $0 + $1.body.utf8.count }
        <= context.limits.signalBytesWaiting
  }

  private func callerSignal(_ request: UInt64, _ kind: SignalKind, _ body: String) -> Signal {
    Signal(index: callerSignalCount + 1, kind: kind, body: body, request: request)
  }

  private func legSignal(
    _ leg: Int, _ request: UInt64, _ kind: SignalKind, _ body: String
  ) -> Signal {
    Signal(index: legs[leg].signalCount + 1, kind: kind, body: body, request: request)
  }

  // MARK: Ends

  /// Ends the call and tells every device that has to hear it, except the one that caused it and
  /// learns it from its reply.
  mutating func end(
    _ reason: EndReason, by: Party?, silent: Role? = nil, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let winner = winner
    // Of an answered call those that had left were told who has it.
    let live = legs.indices.filter {
      winner == nil ? legs[$0].state.mayStillRing : legs[$0].state.isLive
    }
    // Who declined for one device has seen the call.
    let isMissed = reason.isMissedCall && !legs.contains { $0.state == .declined }
    let end = EndedFacts(reason: reason, by: by, at: context.now, missed: isMissed)
    let isPushed = winner == nil && (hasPushUnderWay || legs.contains(where: \.ringsByPush))
    if isMissed || isPushed { wantsPush = true }
    commit(.ended(end), reason == .hungUp ? .relaxed : .urgent, context, into: &outcome)
    if case .caller = silent {
      caller.clear()
    } else {
      caller.clear()
      tellCaller(.stop(Stop(reason: reason, by: by)), context, into: &outcome)
    }
    for leg in live {
      if case .leg(leg) = silent {
        legs[leg].endpoint.clear()
      } else {
        stop(
          leg: leg, Stop(reason: reason, by: by, missed: end.missed), context, into: &outcome)
      }
    }
    if let winner {
      legs[winner].endpoint.clear()
      if case .leg(winner) = silent {
      } else {
        tell(leg: winner, .stop(Stop(reason: reason, by: by)), context, into: &outcome)
      }
    }
    settleIfAllHeard(context, into: &outcome)
  }

  /// When every leg has refused, the call ends at once.
  mutating func endIfNobodyIsLeft(_ context: CallContext, into outcome: inout Outcome) {
    guard case .ringing = stage else { return }
    guard !legs.contains(where: { $0.state.isLive }) else {
      // Perhaps only devices that lost their sockets are left.
      watchLegs(context)
      if let until = legsLostUntil, until <= context.now { endUnreached(context, into: &outcome) }
      return
    }
    // Where somebody refused, the caller has an answer: only who would be unreachable is waited for.
    let isRefused = legs.contains { $0.state == .declined || $0.state == .busy }
    if let until = sessionsUnknownUntil, context.now < until, !isRefused {
      legsLostUntil = until
    } else {
      endUnreached(context, into: &outcome)
    }
  }

  /// Nobody is left to answer: declined where a person said so, busy where a device did, else
  /// unreachable.
  mutating func endUnreached(_ context: CallContext, into outcome: inout Outcome) {
    if let decliner = legs.last(where: { $0.state == .declined }) {
      end(.declined, by: decliner.party, context, into: &outcome)
    } else if let busy = legs.last(where: { $0.state == .busy }) {
      end(.busy, by: busy.party, context, into: &outcome)
    } else {
      end(.unreachable, by: nil, context, into: &outcome)
    }
  }

  /// Once nobody has to be told any more, a new owner of the shard need not tell them either.
  mutating func settleIfAllHeard(_ context: CallContext, into outcome: inout Outcome) {
    guard isEnded, !settled, caller.isSettled, legs.allSatisfy({ $0.endpoint.isSettled }) else {
      return
    }
    commit(.settled, .idle, context, into: &outcome)
  }
}
