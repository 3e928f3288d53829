/// Descriptions, candidates and informations (R17): delivered to the other side, or kept until there is one.
extension Call {
  /// Takes a signal.
  ///
  /// Those of a leg that lost, and those after the end, are dropped: nobody could use them. An information has
  /// a receiver only once the call is answered.
  /// - Parameter after: the sender's request before this one that was not answered; 0: none.
  /// - Returns: nil where that one was lost on its way. There is no reply then: the edge retransmits both, in
  ///   their order.
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

  /// Whether a device rings now.
  func isRung(_ role: Role) -> Bool {
    guard case .leg(let leg) = role else { return false }
    return isInRound(leg) && legs[leg].state.isLive
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
}
