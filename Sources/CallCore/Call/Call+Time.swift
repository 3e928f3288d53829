/// What happens to a call because time passes.
extension Call {
  /// When `tick` has something to do next.
  func nextDeadline(_ limits: CallLimits) -> Timestamp {
    var next = caller.nextRepeat
    for leg in legs {
      let repeated = leg.endpoint.nextRepeat
      if repeated < next { next = repeated }
    }
    switch stage {
    case .ringing:
      next = min(next, facts.deadline)
      if let callerLostUntil { next = min(next, callerLostUntil) }
      if let legsLostUntil { next = min(next, legsLostUntil) }
      if !wantsPush {
        for leg in legs where leg.pushAt < next { next = leg.pushAt }
      }
    case .answered(let answer):
      if !isConnected { next = min(next, connectDeadline(answer)) }
      if let callerLostUntil { next = min(next, callerLostUntil) }
      if let winnerLostUntil { next = min(next, winnerLostUntil) }
    case .ended(let end, _):
      next = min(next, end.at + limits.endedCallKept)
    }
    return next
  }

  /// Whether it ended so long ago that it can go.
  func isForgettable(_ context: CallContext) -> Bool {
    if case .ended(let end, _) = stage {
      return end.at + context.limits.endedCallKept <= context.now
    }
    return false
  }

  /// Carries out what is due. Returns how many deliveries were repeated.
  mutating func tick(_ context: CallContext, into outcome: inout Outcome) -> Int {
    if context.isHeldBack { allowTime(context) }
    switch stage {
    case .ringing: tickRinging(context, into: &outcome)
    case .answered(let answer): tickAnswered(answer, context, into: &outcome)
    case .ended: break
    }
    var repeated = caller.repeatDue(context, into: &outcome)
    if repeated > 0 { timeline.note(.repeated, CallTimeline.caller, at: context.now) }
    for leg in legs.indices {
      let count = legs[leg].endpoint.repeatDue(context, into: &outcome)
      if count > 0 { timeline.note(.repeated, UInt8(clamping: leg), at: context.now) }
      repeated += count
    }
    // A repetition leaves behind an append like everything else, so that a former owner that wakes
    // up late repeats nothing.
    if repeated > 0 { outcome.raise(to: .urgent) }
    return repeated
  }

  private var isConnected: Bool { callerConnected && winnerConnected }

  private func connectDeadline(_ answer: AnsweredFacts) -> Timestamp {
    max(answer.connectDeadline, connectBy ?? answer.connectDeadline)
  }

  /// The journal or an owner was away until now, so devices were told nothing and heard by nobody. Their time
  /// to connect begins anew, and who is missing has `reattachGrace` at least to come back. Not journalled.
  mutating func allowTime(_ context: CallContext) {
    let least = context.now + context.limits.reattachGrace
    if case .answered = stage, !isConnected {
      connectBy = context.now + context.limits.connectGrace
    }
    callerLostUntil = callerLostUntil.map { max($0, least) }
    winnerLostUntil = winnerLostUntil.map { max($0, least) }
    legsLostUntil = legsLostUntil.map { max($0, least) }
  }

  private mutating func tickRinging(_ context: CallContext, into outcome: inout Outcome) {
    if facts.deadline <= context.now {
      end(.unanswered, by: nil, context, into: &outcome)
    } else if let until = callerLostUntil, until <= context.now {
      end(.cancelled, by: facts.caller, context, into: &outcome)
    } else if let until = legsLostUntil, until <= context.now {
      endUnreached(context, into: &outcome)
    } else if legs.contains(where: { $0.pushAt <= context.now }) {
      wantsPush = true
    }
  }

  private mutating func tickAnswered(
    _ answer: AnsweredFacts, _ context: CallContext, into outcome: inout Outcome
  ) {
    let callerGone = callerLostUntil.map { $0 <= context.now } ?? false
    let winnerGone = winnerLostUntil.map { $0 <= context.now } ?? false
    if !isConnected, connectDeadline(answer) <= context.now {
      end(.failed, by: nil, context, into: &outcome)
    } else if callerGone || winnerGone {
      // Both sides away, though one may have some grace left: nobody is there to come back to.
      if callerLostUntil != nil, winnerLostUntil != nil {
        end(.failed, by: nil, context, into: &outcome)
      } else {
        end(.hungUp, by: callerGone ? facts.caller : answer.by, context, into: &outcome)
      }
    }
  }
}
