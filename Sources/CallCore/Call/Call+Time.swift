/// What happens to a call because time passes.
extension Call {
  /// When `tick` has something to do next.
  func nextDeadline(_ limits: CallLimits) -> Timestamp {
    var next = caller.nextRetransmission
    for leg in legs { next = min(next, leg.endpoint.nextRetransmission) }
    switch stage {
    case .ringing(let ringing):
      next = min(next, facts.deadline)
      if let until = ringing.callerLostUntil { next = min(next, until) }
      if let until = ringing.legsLostUntil { next = min(next, until) }
      if !wantsPush {
        for leg in legs { next = min(next, leg.ringPush.dueAt) }
      }
    case .answered(let conversation):
      if !conversation.isConnected { next = min(next, conversation.connectDeadline) }
      if let until = conversation.callerLostUntil { next = min(next, until) }
      if let until = conversation.winnerLostUntil { next = min(next, until) }
    case .ended(let ending):
      next = min(next, ending.facts.at + limits.endedCallKept)
    }
    return next
  }

  /// Whether it ended so long ago that it can go.
  func isForgettable(_ context: CallContext) -> Bool {
    guard case .ended(let ending) = stage else { return false }
    return ending.facts.at + context.limits.endedCallKept <= context.now
  }

  /// Carries out what is due.
  /// - Returns: how many deliveries were retransmitted.
  mutating func tick(_ context: CallContext, into outcome: inout Outcome) -> Int {
    if context.isHeldBack { allowTime(context) }
    switch stage {
    case .ringing(let ringing): tickRinging(ringing, context, into: &outcome)
    case .answered(let conversation): tickAnswered(conversation, context, into: &outcome)
    case .ended: break
    }
    var count = caller.retransmitDue(context, into: &outcome)
    if count > 0 { timeline.note(.repeated, CallTimeline.caller, at: context.now) }
    for leg in legs.indices {
      let ofLeg = legs[leg].endpoint.retransmitDue(context, into: &outcome)
      if ofLeg > 0 { timeline.note(.repeated, UInt8(clamping: leg), at: context.now) }
      count += ofLeg
    }
    // A retransmission leaves behind an append like everything else, so that a former owner that wakes
    // up late retransmits nothing (R23).
    if count > 0 { outcome.raise(to: .urgent) }
    return count
  }

  /// The journal or an owner was away until now, so nothing was delivered and no command was taken. Both sides
  /// get the whole time to connect again, and who is missing has at least `reattachGrace` to come back. Not
  /// journalled.
  mutating func allowTime(_ context: CallContext) {
    let least = context.now + context.limits.reattachGrace
    changeRinging {
      $0.callerLostUntil = $0.callerLostUntil.map { max($0, least) }
      $0.legsLostUntil = $0.legsLostUntil.map { max($0, least) }
    }
    changeConversation {
      if !$0.isConnected {
        $0.connectDeadline = max($0.connectDeadline, context.now + context.limits.connectGrace)
      }
      $0.callerLostUntil = $0.callerLostUntil.map { max($0, least) }
      $0.winnerLostUntil = $0.winnerLostUntil.map { max($0, least) }
    }
  }

  private mutating func tickRinging(
    _ ringing: CallStage.Ringing, _ context: CallContext, into outcome: inout Outcome
  ) {
    func isOver(_ time: Timestamp?) -> Bool { time.map { $0 <= context.now } ?? false }
    if isOver(facts.deadline) {
      end(.unanswered, by: nil, context, into: &outcome)
    } else if isOver(ringing.callerLostUntil) {
      end(.cancelled, by: facts.caller, context, into: &outcome)
    } else if isOver(ringing.legsLostUntil) {
      endUnreached(context, into: &outcome)
    } else if legs.contains(where: { $0.ringPush.dueAt <= context.now }) {
      wantsPush = true
    }
  }

  private mutating func tickAnswered(
    _ conversation: CallStage.Conversation, _ context: CallContext, into outcome: inout Outcome
  ) {
    let callerGone = conversation.callerLostUntil.map { $0 <= context.now } ?? false
    let winnerGone = conversation.winnerLostUntil.map { $0 <= context.now } ?? false
    if !conversation.isConnected, conversation.connectDeadline <= context.now {
      end(.failed, by: nil, context, into: &outcome)
    } else if callerGone || winnerGone {
      // Both sides are away. One may have some grace left, but nobody is there to come back to.
      if conversation.callerLostUntil != nil, conversation.winnerLostUntil != nil {
        end(.failed, by: nil, context, into: &outcome)
      } else {
        end(
          .hungUp, by: callerGone ? facts.caller : conversation.answer.by, context,
          into: &outcome)
      }
    }
  }
}
