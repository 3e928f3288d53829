/// What it means for a call that sessions of its devices begin and end.
extension Call {
  /// A device of the callee has a session, perhaps a new one: it hears the present state.
  mutating func attached(
    _ party: Party, _ session: SessionRef, _ context: CallContext, into outcome: inout Outcome
  ) {
    if case .caller = role(of: facts.callee, party.device) { return }
    guard let leg = legIndex(party.device) else {
      if case .ringing = stage { join(party, session, context, into: &outcome) }
      return
    }
    let same = legs[leg].endpoint.session == session
    legs[leg].endpoint.session = session
    legsLostUntil = nil
    if !party.deviceName.isEmpty { legs[leg].party.deviceName = party.deviceName }
    if same { return }
    legs[leg].isAwake()
    legs[leg].pushAt = .distantFuture
    timeline.note(.attached, UInt8(clamping: leg), at: context.now)
    switch stage {
    case .ringing:
      if legs[leg].state == .gone { commit(.legJoined(party), .urgent, context, into: &outcome) }
      if legs[leg].state.isLive {
        invite(leg: leg, context, into: &outcome)
      } else {
        legs[leg].endpoint.sayAgain(context, into: &outcome)
      }
    case .answered(let answer):
      if legs[leg].state == .won {
        if winnerLostUntil != nil {
          commit(.winnerLost(until: nil), .urgent, context, into: &outcome)
        }
        return tellWinner(leg, answer, context, into: &outcome)
      }
      legs[leg].endpoint.sayAgain(context, into: &outcome)
    case .ended: legs[leg].endpoint.sayAgain(context, into: &outcome)
    }
  }

  /// A late attach: one more device rings.
  private mutating func join(
    _ party: Party, _ session: SessionRef, _ context: CallContext, into outcome: inout Outcome
  ) {
    guard legs.count < context.limits.legsPerCallLifetime else { return }
    commit(.legJoined(party), .urgent, context, into: &outcome)
    guard let leg = legIndex(party.device) else { return }
    legs[leg].endpoint.session = session
    legsLostUntil = nil
    invite(leg: leg, context, into: &outcome)
  }

  /// A session of the callee's is gone.
  mutating func calleeSessionLost(
    _ session: SessionRef, graceful: Bool, _ context: CallContext, into outcome: inout Outcome
  ) {
    guard let leg = legs.firstIndex(where: { $0.endpoint.session == session }) else { return }
    legs[leg].endpoint.session = nil
    timeline.note(.sessionLost, UInt8(clamping: leg), at: context.now)
    switch stage {
    case .ringing:
      guard legs[leg].state.isLive else { return }
      let isExpected = planPushAfterLoss(leg, graceful: graceful, context)
      if graceful, !isExpected {
        commit(
          .legEnded(legs[leg].party.device, .gone, at: context.now), .urgent, context,
          into: &outcome)
        endIfNobodyIsLeft(context, into: &outcome)
      }
      if case .ringing = stage { watchLegs(context) }
    case .answered where legs[leg].state == .won:
      commit(
        .winnerLost(until: context.now + context.limits.resumeGraceAnswered), .urgent, context,
        into: &outcome)
    case .answered, .ended: break
    }
  }

  /// While no device of the callee has a session or is being woken, the call lasts only as long as one
  /// may come back.
  mutating func watchLegs(_ context: CallContext) {
    let reachable = legs.contains { $0.state.isLive && $0.isReachable }
    if reachable {
      legsLostUntil = nil
    } else if legsLostUntil == nil {
      legsLostUntil = lostLegsGrace(context)
    }
  }

  /// A device that rang has longer to come back than one that was never reached.
  private func lostLegsGrace(_ context: CallContext) -> Timestamp {
    var until = max(context.now, sessionsUnknownUntil ?? context.now)
    for leg in legs where leg.state.isLive {
      let grace =
        leg.told ? context.now + context.limits.resumeGraceRinging : leg.awaitedUntil
      if let grace { until = max(until, grace) }
    }
    return until
  }

  mutating func callerSessionLost(
    _ session: SessionRef, _ context: CallContext, into outcome: inout Outcome
  ) {
    guard caller.session == session else { return }
    caller.session = nil
    timeline.note(.sessionLost, CallTimeline.caller, at: context.now)
    switch stage {
    case .ringing:
      commit(
        .callerLost(until: context.now + context.limits.resumeGraceRinging), .urgent, context,
        into: &outcome)
    case .answered:
      commit(
        .callerLost(until: context.now + context.limits.resumeGraceAnswered), .urgent, context,
        into: &outcome)
    case .ended: break
    }
  }

  /// The caller's device is back, or repeats that it is there.
  mutating func callerAttached(
    _ session: SessionRef, _ context: CallContext, into outcome: inout Outcome
  ) {
    let same = caller.session == session
    caller.session = session
    if callerLostUntil != nil, !isEnded {
      commit(.callerLost(until: nil), .urgent, context, into: &outcome)
    }
    if !same {
      timeline.note(.attached, CallTimeline.caller, at: context.now)
      // Before a new owner begins only a part is known of what the caller has to hear.
      if context.isServing { caller.sayAgain(context, into: &outcome) }
    }
  }
}
