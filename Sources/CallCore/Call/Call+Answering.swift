/// What the callee's devices say of a ringing call.
extension Call {
  mutating func alerting(_ leg: Int, _ context: CallContext, into outcome: inout Outcome) -> Reply {
    inviteAcknowledged(leg, context, into: &outcome)
    guard isRinging, legs[leg].state.isLive else { return .call(state(for: .leg(leg))) }
    if legs[leg].state != .alerting {
      let first = !legs.contains { $0.state == .alerting }
      commit(.alerting(legs[leg].party.device), .relaxed, context, into: &outcome)
      if first { deliverToCaller(.ringing(by: legs[leg].party), context, into: &outcome) }
    }
    return .call(state(for: .leg(leg)))
  }

  /// The first answer in the shard's order wins (R1, R2).
  mutating func answer(
    _ leg: Int, description: String, _ context: CallContext, into outcome: inout Outcome
  ) -> Reply {
    inviteAcknowledged(leg, context, into: &outcome)
    if isRinging {
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
    let early = legs[leg].signals.waiting
    commit(.answered(facts), .urgent, context, into: &outcome)
    deliverToCaller(
      .answered(Answered(by: facts.by, description: description, signals: early)), context,
      into: &outcome)
    for loser in losers {
      stop(leg: loser, Stop(reason: .answeredElsewhere, by: facts.by), context, into: &outcome)
      if legs[loser].ringPush.mayRing { wantsPush = true }
    }
    if hasRingPushUnderWay { wantsPush = true }
    if callerLostUntil != nil {
      commit(
        .callerLost(until: context.now + context.limits.resumeGraceAnswered), .urgent, context,
        into: &outcome)
    }
  }

  // MARK: Declining

  /// - Parameter session: where the command came from, and where the reply goes. If the device was invited on
  ///   another session, its app there gets a delivery, too: what a push allows may be used by another process
  ///   of the phone.
  mutating func decline(
    _ leg: Int, _ scope: DeclineScope, on session: SessionRef, _ context: CallContext,
    into outcome: inout Outcome
  ) -> Reply {
    inviteAcknowledged(leg, context, into: &outcome)
    guard isRinging, legs[leg].state.isLive else { return lateRefusal(leg) }
    let ringsElsewhere = ringsElsewhere(leg, than: session)
    switch scope {
    case .everywhere:
      end(
        .declined, by: legs[leg].party, silent: ringsElsewhere ? nil : .leg(leg), context,
        into: &outcome)
    case .here:
      refuse(leg, .declinedHere, ringsElsewhere: ringsElsewhere, context, into: &outcome)
    }
    return .call(state(for: .leg(leg)))
  }

  /// - Parameter session: as of `decline`.
  mutating func busy(
    _ leg: Int, on session: SessionRef, _ context: CallContext, into outcome: inout Outcome
  ) -> Reply {
    inviteAcknowledged(leg, context, into: &outcome)
    guard isRinging, legs[leg].state.isLive else { return lateRefusal(leg) }
    refuse(
      leg, .busy, ringsElsewhere: ringsElsewhere(leg, than: session), context, into: &outcome)
    return .call(state(for: .leg(leg)))
  }

  private func ringsElsewhere(_ leg: Int, than session: SessionRef) -> Bool {
    legs[leg].invitation.wasSent && legs[leg].endpoint.session != session
  }

  /// One device stops, the others ring on.
  private mutating func refuse(
    _ leg: Int, _ end: LegEnd, ringsElsewhere: Bool, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    commit(
      .legEnded(legs[leg].party.device, end, at: context.now), .urgent, context, into: &outcome)
    if ringsElsewhere { confirmRefusal(leg, context, into: &outcome) }
    endIfNobodyIsLeft(context, into: &outcome)
  }

  /// Stops a device on its session because it declined, or was busy.
  mutating func confirmRefusal(_ leg: Int, _ context: CallContext, into outcome: inout Outcome) {
    guard let refusal = legs[leg].state.refusal else { return }
    stop(
      leg: leg, Stop(reason: refusal.reason, by: legs[leg].party), decided: refusal.at, context,
      into: &outcome)
  }

  /// A decline or busy that comes too late changes nothing (R7). The winner learns how to end its call.
  private func lateRefusal(_ leg: Int) -> Reply {
    if case .answered = stage, legs[leg].state == .won {
      return .error(CallError(.wrongState, "This device answered the call: hang up to end it."))
    }
    return .call(state(for: .leg(leg)))
  }
}
