/// Commands of the callee's devices for a ringing call.
extension Call {
  mutating func alerting(_ leg: Int, _ turn: inout Turn) -> Reply {
    inviteAcknowledged(leg, &turn)
    guard isRung(.leg(leg)) else { return .call(state(for: .leg(leg))) }
    if legs[leg].state != .alerting {
      let first = !legs.contains { $0.state == .alerting }
      commit(.alerting(legs[leg].key), .relaxed, &turn)
      if first { deliverRinging(by: legs[leg].party, &turn) }
    }
    return .call(state(for: .leg(leg)))
  }

  /// The first answer in the shard's order wins (R1, R2).
  /// - Parameter session: where the command came from.
  mutating func answer(
    _ leg: Int, description: String, on session: SessionRef, _ turn: inout Turn
  ) -> Reply {
    if isAnswerOfBefore(leg) { return .answer(won: false, stateBefore(leg)) }
    inviteAcknowledged(leg, &turn)
    if isTransferring, isInRound(leg) {
      return takeTransfer(leg, description: description, on: session, &turn)
    }
    if isRinging {
      guard legs[leg].state.isLive else { return tooLate(leg) }
      win(leg, description: description, &turn)
    }
    return .answer(won: legs[leg].state == .won, state(for: .leg(leg)))
  }

  /// The reply to an answer of a device that no longer rings, while others still do.
  func tooLate(_ leg: Int) -> Reply {
    let party = legs[leg].party
    if let stop = leftStop(leg), stop.by?.isDevice(party.device, of: party.user) != true {
      return .answer(won: false, state(for: .leg(leg)))
    }
    return .error(CallError(.wrongState, "This device declined, was busy or left."))
  }

  /// - Parameter merged: the device's own call, which crossed this one and gave way; nil: it answered.
  @discardableResult
  mutating func win(
    _ leg: Int, description: String, merged: CallID? = nil, _ turn: inout Turn
  ) -> AnsweredFacts {
    let losers = legs.indices.filter { $0 != leg && legs[$0].state.mayStillRing }
    let facts = AnsweredFacts(
      by: legs[leg].party, at: turn.now, description: description,
      connectDeadline: turn.now + turn.limits.connectGrace, merged: merged)
    let early = legs[leg].signals.waiting
    commit(.answered(facts), .urgent, &turn)
    deliverToCaller(
      .answered(Answered(by: facts.by, description: description, signals: early)), &turn)
    for loser in losers {
      stop(leg: loser, Stop(reason: .answeredElsewhere, by: facts.by), &turn)
      if legs[loser].ringPush.mayRing { wantsPush = true }
    }
    if hasRingPushUnderWay { wantsPush = true }
    if callerLostUntil != nil {
      commit(.callerLost(until: turn.now + turn.limits.resumeGraceAnswered), .urgent, &turn)
    }
    if isCallerVacant { callForVacantSide(&turn) }
    tellGuests(&turn)
    return facts
  }

  // MARK: Declining

  /// - Parameter session: where the command came from, and where the reply goes. If the device was invited on
  ///   another session, its app there gets a delivery, too: what a push allows may be used by another process
  ///   of the phone.
  mutating func decline(
    _ leg: Int, _ scope: DeclineScope, on session: SessionRef, _ turn: inout Turn
  ) -> Reply {
    inviteAcknowledged(leg, &turn)
    guard isRung(.leg(leg)) else { return lateRefusal(leg) }
    let ringsElsewhere = ringsElsewhere(leg, than: session)
    switch scope {
    case .everywhere where next(after: legs[leg].party.user) != nil:
      let by = legs[leg].party
      let isNext = callNext(
        after: by.user, .declined, by: by, silent: ringsElsewhere ? nil : leg, &turn)
      // The time that the caller chose is over.
      if !isNext { giveUp(.declined, by: by, silent: ringsElsewhere ? nil : .leg(leg), &turn) }
    case .everywhere where ringsOthers(than: legs[leg].party.user, at: turn.now):
      declineForUser(leg, isSilent: !ringsElsewhere, &turn)
    case .everywhere:
      giveUp(.declined, by: legs[leg].party, silent: ringsElsewhere ? nil : .leg(leg), &turn)
    case .here:
      refuse(leg, .declinedHere, ringsElsewhere: ringsElsewhere, &turn)
    }
    return .call(state(for: .leg(leg)))
  }

  /// - Parameter session: as of `decline`.
  mutating func busy(_ leg: Int, on session: SessionRef, _ turn: inout Turn) -> Reply {
    inviteAcknowledged(leg, &turn)
    guard isRung(.leg(leg)) else { return lateRefusal(leg) }
    refuse(leg, .busy, ringsElsewhere: ringsElsewhere(leg, than: session), &turn)
    return .call(state(for: .leg(leg)))
  }

  private func ringsElsewhere(_ leg: Int, than session: SessionRef) -> Bool {
    legs[leg].invitation.wasSent && legs[leg].endpoint.session != session
  }

  /// One device stops, the others ring on.
  private mutating func refuse(_ leg: Int, _ end: LegEnd, ringsElsewhere: Bool, _ turn: inout Turn)
  {
    commit(.legEnded(legs[leg].key, end, at: turn.now), .urgent, &turn)
    if ringsElsewhere { confirmRefusal(leg, &turn) }
    endIfNobodyIsLeft(&turn)
  }

  /// Stops a device on its session because it declined, or was busy.
  mutating func confirmRefusal(_ leg: Int, _ turn: inout Turn) {
    guard let refusal = legs[leg].state.refusal else { return }
    stop(leg: leg, Stop(reason: refusal.reason, by: legs[leg].party), decided: refusal.at, &turn)
  }

  /// A decline or busy that comes too late changes nothing (R7). The winner learns how to end its call.
  private func lateRefusal(_ leg: Int) -> Reply {
    if case .answered = stage, legs[leg].state == .won {
      return .error(CallError(.wrongState, "This device answered the call: hang up to end it."))
    }
    return .call(state(for: .leg(leg)))
  }
}
