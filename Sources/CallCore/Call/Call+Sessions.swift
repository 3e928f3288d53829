/// The consequences for a call when sessions of its devices begin and end.
extension Call {
  /// A device of the callee has a session, perhaps a new one: it gets the present state.
  /// - Parameter joins: false for a device that only places calls. Only a push can have made it ring.
  mutating func attached(
    _ party: Party, _ session: SessionRef, joins: Bool = true, _ turn: inout Turn
  ) {
    switch role(of: UserKey(app: facts.callee.app, user: party.user), party.device) {
    case .caller: return
    case .formerCaller(let index): return formerCallerAttached(index, session, &turn)
    case .leg, .calleeDevice, .stranger: break
    }
    guard let leg = legIndex(party) else {
      guard isSearching, joins, rings(party.user, facts.key(of: party)) else { return }
      // The user's shard says whether the user takes the call. The callee is asked, too, when the call comes back.
      if let index = guest(party.user) {
        guests[index].askAt = turn.now
        visitGuests(&turn)
      } else if !waitsForFirst(party) {
        join(party, session, &turn)
      }
      return
    }
    let same = legs[leg].endpoint.session == session
    legs[leg].endpoint.session = session
    if isInRound(leg) { legsLostUntil = nil }
    if !party.deviceName.isEmpty { legs[leg].party.deviceName = party.deviceName }
    if same { return legs[leg].endpoint.retransmitExhausted(&turn) }
    legs[leg].ringPush.deviceIsAwake()
    timeline.note(.attached, UInt8(clamping: leg), at: turn.now)
    if isInRound(leg) {
      if case .gone = legs[leg].state {
        commit(.legJoined(party), .urgent, &turn)
      }
      if legs[leg].state.isLive { return invite(leg: leg, &turn) }
    }
    if case .answered(let conversation) = stage, leg == conversation.winner {
      return askWinner(conversation, &turn)
    }
    legs[leg].endpoint.retransmitAll(&turn)
  }

  /// The winner's device has a new session. Its app may have been killed and know nothing of the call, so the time for it to
  /// come back goes on until it acknowledges a delivery of the call, or sends a command about it. Where nobody saw the
  /// former session end, that time begins now.
  mutating func askWinner(_ conversation: CallStage.Conversation, _ turn: inout Turn) {
    awaitsWinner = true
    let least = turn.now + turn.limits.winnersWord
    if let until = conversation.winnerLostUntil {
      if until < least { commit(.winnerLost(until: least), .urgent, &turn) }
    } else {
      let until = conversation.winnerSilentUntil ?? turn.now + turn.limits.resumeGraceAnswered
      changeConversation { $0.winnerSilentUntil = max(until, least) }
    }
    deliverAnswerToWinner(conversation.winner, conversation, &turn)
  }

  /// A device has said something about the call. If it has the callee's side and was away, it is back.
  mutating func spoke(_ role: Role, _ turn: inout Turn) {
    guard awaitsWinner, case .leg(let leg) = role, case .answered(let conversation) = stage,
      leg == conversation.winner, legs[leg].endpoint.session != nil
    else { return }
    awaitsWinner = false
    changeConversation { $0.winnerSilentUntil = nil }
    if conversation.winnerLostUntil != nil { commit(.winnerLost(until: nil), .urgent, &turn) }
  }

  /// A late attach (R5): one more device rings.
  private mutating func join(_ party: Party, _ session: SessionRef, _ turn: inout Turn) {
    guard legs.count < turn.limits.legsPerCallLifetime else { return }
    commit(.legJoined(party), .urgent, &turn)
    guard let leg = legIndex(party) else { return }
    legs[leg].endpoint.session = session
    legsLostUntil = nil
    invite(leg: leg, &turn)
  }

  /// A session of the callee's ended.
  /// - Parameter graceful: the device ended it; its socket did not break.
  mutating func calleeSessionLost(_ session: SessionRef, graceful: Bool, _ turn: inout Turn) {
    guard let leg = legs.firstIndex(where: { $0.endpoint.session == session }) else { return }
    legs[leg].endpoint.session = nil
    timeline.note(.sessionLost, UInt8(clamping: leg), at: turn.now)
    if isInRound(leg) {
      guard legs[leg].state.isLive else { return }
      let isExpected = planPushAfterLoss(leg, graceful: graceful, turn)
      if graceful, !isExpected {
        commit(.legEnded(legs[leg].key, .gone, at: turn.now), .urgent, &turn)
        endIfNobodyIsLeft(&turn)
      }
      watchLegs(turn)
    } else if legs[leg].state == .won, !isEnded {
      awaitsWinner = false
      guard case .answered(let conversation) = stage, conversation.winnerLostUntil == nil else {
        // It was attached and has not come back: its time goes on.
        return
      }
      let until = conversation.winnerSilentUntil ?? turn.now + turn.limits.resumeGraceAnswered
      commit(.winnerLost(until: until), .urgent, &turn)
    }
  }

  /// While a call rings and no device of the callee has a session or is being woken, the call lasts only as
  /// long as one may come back.
  mutating func watchLegs(_ turn: borrowing Turn) {
    guard isSearching, !awaitsGuests(at: turn.now) else { return }
    if legs.contains(where: { $0.state.isLive && $0.isReachable }) {
      legsLostUntil = nil
    } else if legsLostUntil == nil {
      legsLostUntil = lostLegsGrace(turn)
    }
  }

  /// A device that rang has longer to come back than one that was never reached.
  private func lostLegsGrace(_ turn: borrowing Turn) -> Timestamp {
    var until = turn.now
    if case .ringing(let ringing) = stage, let unknown = ringing.sessionsUnknownUntil {
      until = max(until, unknown)
    }
    for leg in legs where leg.state.isLive {
      switch leg.invitation {
      case .notSent(let awaitedUntil): until = max(until, awaitedUntil ?? until)
      case .sent, .resent, .sentByFormerOwner:
        until = max(until, turn.now + turn.limits.resumeGraceRinging)
      }
    }
    return until
  }

  // MARK: The caller

  mutating func callerSessionLost(_ session: SessionRef, _ turn: inout Turn) {
    for index in formerCallers.indices where formerCallers[index].endpoint.session == session {
      formerCallers[index].endpoint.session = nil
    }
    guard caller.session == session else { return }
    caller.session = nil
    timeline.note(.sessionLost, CallTimeline.caller, at: turn.now)
    guard let grace = callerResumeGrace(turn.limits) else { return }
    commit(.callerLost(until: turn.now + grace), .urgent, &turn)
  }

  /// How long a caller whose session broke may stay away (R22); nil after the end, and where there is no caller yet.
  func callerResumeGrace(_ limits: CallLimits) -> Span? {
    guard !isCallerVacant else { return nil }
    return switch stage {
    case .ringing: limits.resumeGraceRinging
    case .answered: limits.resumeGraceAnswered
    case .ended: nil
    }
  }

  /// The caller's device is back, or repeats that it is there.
  mutating func callerAttached(_ session: SessionRef, _ turn: inout Turn) {
    let same = caller.session == session
    caller.session = session
    if callerLostUntil != nil {
      commit(.callerLost(until: nil), .urgent, &turn)
    }
    if !same {
      timeline.note(.attached, CallTimeline.caller, at: turn.now)
      // Before a new owner begins, only a part of what the caller has to get is known.
      if turn.isServing { caller.retransmitAll(&turn) }
    } else {
      caller.retransmitExhausted(&turn)
    }
  }
}
