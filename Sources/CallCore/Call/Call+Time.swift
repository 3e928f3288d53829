/// Changes of a call that happen because time passes.
extension Call {
  /// When `tick` has something to do next.
  /// - Parameter endedCallKept: how long after its end a call is forgotten.
  func nextDeadline(_ endedCallKept: Span) -> Timestamp {
    var next = caller.nextRetransmission
    if !guests.isEmpty { next = min(next, nextGuestDeadline) }
    for leg in legs { next = min(next, leg.endpoint.nextRetransmission) }
    for former in formerCallers { next = min(next, former.endpoint.nextRetransmission) }
    switch stage {
    case .ringing(let ringing):
      next = min(next, facts.deadline, ringing.noAnswerAt, ringing.othersAt)
      if let until = ringing.callerLostUntil { next = min(next, until) }
      if let until = ringing.legsLostUntil { next = min(next, until) }
      if !wantsPush {
        for leg in legs { next = min(next, leg.ringPush.dueAt) }
      }
    case .answered(let conversation):
      if awaitsConnection(conversation) { next = min(next, conversation.connectDeadline) }
      let leaving = transfer?.ofCaller
      if leaving != true, let until = conversation.callerLostUntil { next = min(next, until) }
      if leaving != false, let until = conversation.winnerDueAt { next = min(next, until) }
      if isTransferring { next = min(next, nextTransferDeadline) }
    case .ended(let ending):
      next = min(next, ending.facts.at + endedCallKept)
    }
    return next
  }

  /// Whether the call ended so long ago that it can be forgotten.
  func isForgettable(_ turn: borrowing Turn) -> Bool {
    guard case .ended(let ending) = stage else { return false }
    return ending.facts.at + turn.limits.endedCallKept <= turn.now
  }

  /// Carries out what is due.
  /// - Returns: how many deliveries were retransmitted.
  mutating func tick(_ turn: inout Turn) -> Int {
    if turn.isHeldBack { allowTime(turn) }
    divertUnanswered(&turn)
    switch stage {
    case .ringing(let ringing): tickRinging(ringing, &turn)
    case .answered(let conversation):
      tickAnswered(conversation, &turn)
      tickTransfer(&turn)
    case .ended: break
    }
    if !guests.isEmpty { tickGuests(&turn) }
    var count = caller.retransmitDue(&turn)
    if count > 0 { timeline.note(.repeated, CallTimeline.caller, at: turn.now) }
    for leg in legs.indices {
      let ofLeg = legs[leg].endpoint.retransmitDue(&turn)
      if ofLeg > 0 { timeline.note(.repeated, UInt8(clamping: leg), at: turn.now) }
      count += ofLeg
    }
    for index in formerCallers.indices {
      count += formerCallers[index].endpoint.retransmitDue(&turn)
    }
    // A retransmission follows an append like every effect, which fences a former owner that wakes up late (R23).
    if count > 0 { turn.outcome.raise(to: .urgent) }
    return count
  }

  /// Extends deadlines after the journal or the owner was away, since no delivery was sent and no command accepted
  /// meanwhile. Both sides get the whole time to connect again, and a missing side has at least `reattachGrace` to come
  /// back. Not journalled.
  mutating func allowTime(_ turn: borrowing Turn) {
    let least = turn.now + turn.limits.reattachGrace
    changeRinging { $0.callerLostUntil = $0.callerLostUntil.map { max($0, least) } }
    if let until = legsLostUntil { legsLostUntil = max(until, least) }
    allowTimeToConnect(turn)
    changeConversation {
      $0.callerLostUntil = $0.callerLostUntil.map { max($0, least) }
      $0.winnerLostUntil = $0.winnerLostUntil.map { max($0, least) }
      $0.winnerSilentUntil = $0.winnerSilentUntil.map { max($0, least) }
    }
  }

  /// Both sides have the whole time to connect from now on. Not journalled.
  mutating func allowTimeToConnect(_ turn: borrowing Turn) {
    changeConversation {
      guard !$0.isConnected else { return }
      $0.connectDeadline = max($0.connectDeadline, turn.now + turn.limits.connectGrace)
    }
  }
}
