/// A call as its devices see it.
extension Call {
  /// The call as one device sees it.
  /// - Parameter attaching: the device is about to get the call's present state, and rings again if it had left.
  func state(for role: Role, attaching: Bool = false) -> CallState {
    var state = CallState(
      call: id, callee: facts.callee.user, phase: phase, version: version, at: facts.placedAt)
    switch stage {
    case .ringing:
      state.deadline = facts.deadline
      if case .leg(let leg) = role { refineRinging(&state, legs[leg], attaching: attaching) }
    case .answered(let conversation):
      let answer = conversation.answer
      state.by = legs[conversation.winner].party
      state.at = answer.at
      if !hasCall(role) { refineAnswered(&state, role, answer) }
    case .ended(let ending):
      if let answer = ending.answer, !hasCall(role) {
        state.lost(to: answer)
      } else {
        let stop = ending.facts.stop(for: device(of: role))
        (state.reason, state.survivor) = (stop.reason, stop.survivor)
        state.unreachable = stop.unreachable
        state.by = ending.facts.by
        state.at = ending.facts.at
        if case .caller = role {} else { state.missed = ending.facts.missed && !hasDeclined(role) }
      }
    }
    if case .leg(let leg) = role { keepOwnRefusal(&state, legs[leg]) }
    // A side that is handed over still belongs to its user.
    if case .calleeDevice(let user, _) = role, isSearching, let left = diversion(from: user),
      left.reason != .transferred
    {
      refine(&state, adapted(left.stop, to: user), at: left.at)
    }
    if let move = move(awayFrom: role) { state.ended(move.stop.reason, by: move.to, at: move.at) }
    return state
  }

  /// Refines the state of an answered call for a device that has no side of it: the device may ring for a transfer.
  private func refineAnswered(_ state: inout CallState, _ role: Role, _ answer: AnsweredFacts) {
    let rings =
      switch role {
      case .leg: isRung(role)
      case .calleeDevice(let user, let key): isTransferring && self.rings(user, key)
      case .caller, .formerCaller, .stranger: false
      }
    guard rings else { return state.lost(to: answer) }
    (state.phase, state.deadline, state.by) = (.ringing, facts.deadline, nil)
    state.at = transfer?.start.at ?? state.at
  }

  /// The answered call as a device saw it before it rang again for a transfer: its part is over.
  func stateBeforeTransfer(_ leg: Int) -> CallState {
    let party = legs[leg].party
    var state = state(for: .leg(leg))
    (state.deadline, state.missed) = (nil, false)
    if let move = moves.last(where: { $0.from.isDevice(party.device, of: party.user) }) {
      state.ended(move.stop.reason, by: move.to, at: move.at)
    } else if let answer {
      state.lost(to: answer)
    }
    return state
  }

  /// Keeps the end and the reply of a device that declined or was busy for itself, whatever became of the call since.
  private func keepOwnRefusal(_ state: inout CallState, _ leg: Leg) {
    if case .diverted(let at) = leg.state, let index = legIndex(leg.key),
      let stop = leftStop(index)
    {
      return refine(&state, stop, at: at)
    }
    // A decline for the user has no time of its own: the device sees the call's end.
    guard let refusal = leg.state.refusal, let at = refusal.at else { return }
    state.ended(refusal.reason, by: leg.party, at: at)
    state.missed = false
  }

  /// Whether the role's user has declined on a device.
  private func hasDeclined(_ role: Role) -> Bool {
    switch role {
    case .caller, .formerCaller, .stranger: false
    case .leg(let leg): hasDeclined(legs[leg].party.user)
    case .calleeDevice(let user, _): hasDeclined(user)
    }
  }

  /// The call's name for the device of a role; nil: the role is the caller's.
  private func device(of role: Role) -> DeviceID? {
    switch role {
    case .caller, .formerCaller, .stranger: nil
    case .leg(let leg): legs[leg].key
    case .calleeDevice(_, let device): device
    }
  }

  /// Whether this device has, or had, a side of the answered call.
  private func hasCall(_ role: Role) -> Bool {
    switch role {
    case .caller, .formerCaller, .stranger: true
    case .leg(let leg): legs[leg].state == .won
    case .calleeDevice: false
    }
  }

  /// Refines the state for a leg that ended while the call rings on. `keepOwnRefusal` handles refusals.
  private func refineRinging(_ state: inout CallState, _ leg: Leg, attaching: Bool) {
    switch leg.state {
    case .waking, .delivered, .alerting, .won, .moved, .diverted: return
    case .gone where attaching: return
    case .gone(let at): state.ended(.unreachable, by: leg.party, at: at)
    case .stopped: state.ended(.answeredElsewhere, by: leg.party, at: state.at)
    case .declined, .busy: break
    }
    state.deadline = nil
  }
}

extension CallState {
  fileprivate mutating func lost(to answer: AnsweredFacts) {
    ended(.answeredElsewhere, by: answer.by, at: answer.at)
  }

  /// It is over for this device.
  fileprivate mutating func ended(_ reason: EndReason, by: Party, at: Timestamp) {
    phase = .ended
    self.reason = reason
    self.by = by
    self.at = at
  }
}
