/// An answered call: the first answer wins, then both sides connect and exchange signals.
extension Call {
  /// The first answer in the shard's order wins (R1, R2).
  mutating func answer(
    _ leg: Int, description: String, by command: Command, _ turn: inout Turn
  ) -> Reply {
    if isOfEarlierRinging(leg) { return .answer(won: false, stateBeforeTransfer(leg)) }
    inviteAcknowledged(leg, &turn)
    if isTransferring, isInRound(leg) {
      return answerTransfer(leg, description: description, by: command, &turn)
    }
    if isRinging {
      guard legs[leg].state.isLive else { return lateAnswer(leg) }
      win(leg, description: description, &turn)
    }
    return .answer(won: legs[leg].state == .won, state(for: .leg(leg)))
  }

  /// The reply to an answer of a device that no longer rings, while others do.
  func lateAnswer(_ leg: Int) -> Reply {
    let party = legs[leg].party
    if let stop = leftStop(leg), stop.by?.isDevice(party.device, of: party.user) != true {
      return .answer(won: false, state(for: .leg(leg)))
    }
    return .error(CallError(.wrongState, "This device declined, was busy or left."))
  }

  /// A leg gets the call, and the others stop.
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
    notifyGuests(&turn)
    return facts
  }

  mutating func applyAnswered(_ answer: AnsweredFacts) -> Bool {
    let winner = legIndex(answer.by) ?? legs.count
    guard becomeAnswered(answer, winner: winner) else { return false }
    if winner == legs.count {
      legs.append(Leg(party: answer.by, key: facts.key(of: answer.by)))
    }
    for index in legs.indices where index != winner {
      if legs[index].state.isLive { legs[index].state = .stopped }
      legs[index].signals.dropWaiting()
    }
    legs[winner].state = .won
    timeline.note(.answered, UInt8(clamping: winner), at: answer.at)
    return true
  }

  /// Gives the call to a device of the callee, because its own call to the caller gave way to this one (R8). The device
  /// counts as having answered, also where it had refused the call, or the call had left its user for others: its user
  /// has called back.
  mutating func merge(_ leg: Int, merged: CallID, _ turn: inout Turn) {
    guard isRinging else { return }
    let lacksInvite = legs[leg].state == .waking || !legs[leg].state.isLive
    if !lacksInvite { inviteAcknowledged(leg, &turn) }
    let answer = win(leg, description: "", merged: merged, &turn)
    legs[leg].ringPush.unschedule()
    if lacksInvite {
      legs[leg].endpoint.clear()
      deliverInvite(toWinner: leg, answer, &turn)
    }
    deliver(to: leg, .answered(Answered(by: answer.by)), &turn)
    if legs[leg].endpoint.session == nil {
      commit(.winnerLost(until: turn.now + turn.limits.resumeGraceAnswered), .urgent, &turn)
    }
  }

  /// Invites a device that gets a call without having answered it: it may have no invite yet.
  mutating func deliverInvite(toWinner leg: Int, _ answer: AnsweredFacts, _ turn: inout Turn) {
    var invite = invite(of: leg)
    invite.deadline = max(invite.deadline, answer.connectDeadline)
    invite.merged = answer.merged
    legs[leg].invitation = .sent
    deliver(to: leg, .invite(invite), &turn)
  }

  // MARK: Connecting

  mutating func connected(_ role: Role, _ turn: inout Turn) -> Reply {
    switch (stage, role) {
    case (.answered(let conversation), .caller):
      if !conversation.isCallerConnected {
        commit(.connected(caller: true), .slow, &turn)
      }
      return .done
    case (.answered(let conversation), .leg(let leg)) where leg == conversation.winner:
      if !conversation.isWinnerConnected {
        commit(.connected(caller: false), .slow, &turn)
      }
      return .done
    case (.ringing, _): return .error(CallError(.wrongState, "Nobody has answered yet."))
    case (.answered, _), (.ended, _): return .call(state(for: role))
    }
  }

  mutating func applyConnected(fromCaller: Bool, at now: Timestamp) -> Bool {
    guard let winner else { return false }
    changeConversation {
      if fromCaller { $0.isCallerConnected = true } else { $0.isWinnerConnected = true }
    }
    timeline.note(.connected, fromCaller ? CallTimeline.caller : UInt8(clamping: winner), at: now)
    return true
  }

  /// Whether both sides have to report that they are connected. No side can connect while the caller's is vacant, and one
  /// that is handed over need not: who takes it has a time of its own.
  func awaitsConnection(_ conversation: CallStage.Conversation) -> Bool {
    !conversation.isConnected && !isCallerVacant && !isTransferring
  }

  // MARK: The winner's device

  /// Sends the winner's device that it has the call, since its app may have been restarted, and then the deliveries
  /// that it has not acknowledged.
  mutating func deliverAnswerToWinner(
    _ leg: Int, _ conversation: CallStage.Conversation, _ turn: inout Turn
  ) {
    let answer = conversation.answer
    let waiting = legs[leg].endpoint.drain()
    if answer.merged != nil, moves.isEmpty, !conversation.isWinnerConnected {
      deliverInvite(toWinner: leg, answer, &turn)
    }
    deliver(to: leg, .answered(Answered(by: legs[leg].party)), decided: answer.at, &turn)
    for delivery in waiting where delivery.event.isOfOtherSide {
      deliver(to: leg, delivery.event, decided: delivery.at, &turn)
    }
  }

  /// The winner's device has a new session. Its app may have been killed and know nothing of the call, so the grace for
  /// its return goes on until the device acknowledges a delivery of the call, or sends a command about it. If the end
  /// of the former session was not reported, the grace begins now.
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

  /// A device acknowledged a delivery of the call, or sent a command about it. If it has the callee's side and was
  /// away, it is back. What an earlier run of its app had sent may come late: it came on that run's session.
  mutating func noteContact(_ role: Role, on session: SessionRef, _ turn: inout Turn) {
    guard awaitsWinner, case .leg(let leg) = role, case .answered(let conversation) = stage,
      leg == conversation.winner
    else { return }
    guard legs[leg].endpoint.session == session else {
      // Another user's shard knows that user's sessions first: it may be a newer one.
      let user = legs[leg].party.user
      return visitAnew(&turn) { $0.hasBytes(of: user) }
    }
    awaitsWinner = false
    changeConversation { $0.winnerSilentUntil = nil }
    if conversation.winnerLostUntil != nil { commit(.winnerLost(until: nil), .urgent, &turn) }
  }

  // MARK: Signals

  /// Passes a description, a candidate or an information on to the other side (R17), or keeps it until there is one.
  ///
  /// Signals of a leg that lost, and signals after the end, have no receiver and are dropped. An information is
  /// accepted only once the call is answered.
  /// - Parameter after: the sender's previous request, if it has no reply yet; 0: none.
  /// - Returns: nil if that request was lost on its way. The command gets no reply then, so the edge retransmits both
  ///   in their order.
  mutating func signal(
    _ role: Role, request: UInt64, after: UInt64, on session: SessionRef, _ kind: SignalKind,
    _ body: String, _ turn: inout Turn
  ) -> Reply? {
    if kind == .information {
      guard body.utf8.count <= turn.limits.informationBytes else {
        return .error(turn.limits.informationTooLarge)
      }
      if isRinging || isRung(role) {
        return .error(CallError(.wrongState, "Nobody has answered yet."))
      }
    }
    switch role {
    case .caller:
      if callerSignals.isRepeat(request: request, on: session, kind, body) { return .done }
      if !isEnded, callerSignals.hasGap(after: after, on: session) { return nil }
      let reply = callerSignal(request, kind, body, &turn)
      callerSignals.claim(session, request)
      return reply
    case .leg(let leg):
      if legs[leg].signals.isRepeat(request: request, on: session, kind, body) { return .done }
      let isKept = leg == winner || isRung(role)
      if isKept, legs[leg].signals.hasGap(after: after, on: session) { return nil }
      let reply = legSignal(leg, request, kind, body, &turn)
      legs[leg].signals.claim(session, request)
      return reply
    case .formerCaller, .calleeDevice, .stranger: return .done
    }
  }

  private mutating func callerSignal(
    _ request: UInt64, _ kind: SignalKind, _ body: String, _ turn: inout Turn
  ) -> Reply {
    let signal = callerSignals.next(request, kind, body)
    if let winner {
      guard legs[winner].endpoint.outbox.count < turn.limits.signalsWaiting else {
        return .error(turn.limits.tooManySignals)
      }
      commit(.signal(fromCaller: true, facts.caller.device, signal), .lazy, &turn)
      legs[winner].endpoint.sendKept(&turn)
    } else if isRinging {
      guard callerSignals.hasRoom(for: body, turn.limits) else {
        return .error(turn.limits.tooManySignals)
      }
      commit(.signal(fromCaller: true, facts.caller.device, signal), .lazy, &turn)
      for leg in legs.indices where legs[leg].state.isLive && legs[leg].invitation.wasSent {
        deliver(to: leg, .signal(signal), &turn)
      }
    }
    return .done
  }

  private mutating func legSignal(
    _ leg: Int, _ request: UInt64, _ kind: SignalKind, _ body: String, _ turn: inout Turn
  ) -> Reply {
    let isWinner = leg == winner
    guard isWinner || isRung(.leg(leg)) else { return .done }
    let hasRoom =
      isWinner
      ? caller.outbox.count < turn.limits.signalsWaiting
      : legs[leg].signals.hasRoom(for: body, turn.limits)
    guard hasRoom else { return .error(turn.limits.tooManySignals) }
    let signal = legs[leg].signals.next(request, kind, body)
    commit(.signal(fromCaller: false, legs[leg].key, signal), .lazy, &turn)
    if isWinner { caller.sendKept(&turn) }
    return .done
  }

  mutating func applySignal(
    fromCaller: Bool, _ device: DeviceID, _ signal: Signal, at now: Timestamp, epoch: UInt64
  ) -> Bool {
    guard !isEnded else { return false }
    if fromCaller {
      guard callerSignals.apply(signal) else { return false }
      if let winner {
        legs[winner].endpoint.keep(delivery(.signal(signal), at: now, epoch: epoch))
      } else {
        callerSignals.wait(signal)
      }
      return true
    }
    guard let leg = legIndex(device), legs[leg].signals.apply(signal) else { return false }
    if legs[leg].state == .won {
      // A vacant side receives no signals: the device that takes it makes an offer. The signal is a fact all the same,
      // so that a new owner recognises its repetition.
      guard !isCallerVacant else { return true }
      caller.keep(delivery(.signal(signal), at: now, epoch: epoch))
    } else if isSearching, legs[leg].state.isLive {
      legs[leg].signals.wait(signal)
    }
    return true
  }

  // MARK: Time

  mutating func tickAnswered(_ conversation: CallStage.Conversation, _ turn: inout Turn) {
    // The side that is handed over may leave before another device takes it.
    let leaving = transfer?.ofCaller
    let callerGone =
      leaving != true && conversation.callerLostUntil.map { $0 <= turn.now } ?? false
    let winnerGone =
      leaving != false && conversation.winnerDueAt.map { $0 <= turn.now } ?? false
    if awaitsConnection(conversation), conversation.connectDeadline <= turn.now {
      end(.failed, by: nil, &turn)
    } else if callerGone || winnerGone {
      // Both sides are away. One may have some grace left, but would find the other one gone.
      if conversation.callerLostUntil != nil, conversation.winnerLostUntil != nil {
        end(.failed, by: nil, &turn)
      } else {
        end(.hungUp, by: callerGone ? facts.caller : legs[conversation.winner].party, &turn)
      }
    }
  }
}
