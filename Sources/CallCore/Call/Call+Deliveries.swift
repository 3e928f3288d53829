/// What the devices of a call are told, and how they see it.
extension Call {
  /// - Parameter decided: when what is told came about, where that was before.
  mutating func tellCaller(
    _ event: Delivery.Event, decided: Timestamp? = nil, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let delivery = delivery(event, at: decided ?? context.now, epoch: context.epoch)
    caller.deliver(delivery, context, into: &outcome)
  }

  /// - Parameter decided: as of `tellCaller`.
  mutating func tell(
    leg: Int, _ event: Delivery.Event, decided: Timestamp? = nil, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let delivery = delivery(event, at: decided ?? context.now, epoch: context.epoch)
    legs[leg].endpoint.deliver(delivery, context, into: &outcome)
  }

  /// Rings a device: the invite, with all that the caller sent so far.
  mutating func invite(leg: Int, _ context: CallContext, into outcome: inout Outcome) {
    guard legs[leg].endpoint.session != nil else { return }
    legs[leg].endpoint.clear()
    legs[leg].isInvitedAnew = legs[leg].told
    legs[leg].wasInvitedBefore = false
    legs[leg].told = true
    // The call is over in a moment, when its deadline is looked at: the device is then told so.
    guard facts.deadline > context.now else { return }
    let invite = Invite(
      caller: facts.caller, deadline: facts.deadline, video: facts.video,
      description: facts.description, headers: facts.headers, signals: callerSignals)
    tell(leg: leg, .invite(invite), context, into: &outcome)
    timeline.note(.invited, UInt8(clamping: leg), at: context.now)
    if legs[leg].wakes { planPushAfterSilence(leg, context) }
  }

  /// Stops a device that rang. One that was never told, by invite or push, has nothing to stop.
  /// - Parameter decided: when it was over for the device, where that was before.
  mutating func stop(
    leg: Int, _ stop: Stop, decided: Timestamp? = nil, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    legs[leg].endpoint.clear()
    guard legs[leg].told || legs[leg].pushes.contains(.ring) else { return }
    tell(leg: leg, .stop(stop), decided: decided, context, into: &outcome)
    timeline.note(.stopped, UInt8(clamping: leg), at: context.now)
  }

  mutating func acknowledge(
    _ role: Role, _ version: UInt64, _ context: CallContext, into outcome: inout Outcome
  ) {
    switch role {
    case .caller:
      if let event = caller.acknowledge(version), !event.isSignal {
        timeline.note(.acknowledged, CallTimeline.caller, at: context.now)
      }
    case .leg(let leg):
      guard let event = legs[leg].endpoint.acknowledge(version) else { return }
      if !event.isSignal {
        timeline.note(.acknowledged, UInt8(clamping: leg), at: context.now)
      }
      if case .invite = event { inviteHeard(leg, context, into: &outcome) }
    case .calleeDevice, .stranger: return
    }
    settleIfAllHeard(context, into: &outcome)
  }

  /// A device has the invite: it acknowledged it, or said something of the call.
  mutating func inviteHeard(_ leg: Int, _ context: CallContext, into outcome: inout Outcome) {
    let signals = legs[leg].endpoint.acknowledgeInvite()
    // What it says may be about an earlier invite: then it has not got what only this one carries.
    if legs[leg].isInvitedAnew {
      for signal in signals { tell(leg: leg, .signal(signal), context, into: &outcome) }
    }
    if legs[leg].wasInvitedBefore, isRinging, legs[leg].state.isLive {
      legs[leg].wasInvitedBefore = false
      legs[leg].endpoint.clear()
      for signal in callerSignals { tell(leg: leg, .signal(signal), context, into: &outcome) }
    }
    legs[leg].pushAt = .distantFuture
    // It is awake: what it has to hear comes over its socket.
    if legs[leg].endpoint.session != nil { legs[leg].isAwake() }
    if legs[leg].state == .waking { legs[leg].state = .delivered }
    guard !rangEverywhere, isRinging, !legs.contains(where: { $0.told && $0.state == .waking })
    else { return }
    rangEverywhere = true
    outcome.ringLatencies.append(context.now - facts.placedAt)
  }

  /// The winner hears first that it has the call, since it may be an app that began anew, and then
  /// what it has not acknowledged.
  mutating func tellWinner(
    _ leg: Int, _ answer: AnsweredFacts, _ context: CallContext, into outcome: inout Outcome
  ) {
    let waiting = legs[leg].endpoint.outbox.map(\.delivery)
    legs[leg].endpoint.clear()
    tell(
      leg: leg, .answered(Answered(by: answer.by)), decided: answer.at, context, into: &outcome)
    for delivery in waiting {
      if case .answered = delivery.event { continue }
      tell(leg: leg, delivery.event, decided: delivery.at, context, into: &outcome)
    }
  }

  // MARK: Views

  /// The call as one device sees it.
  /// - Parameter attaching: the device is about to hear the call's present state, and rings again if
  ///   it had left.
  func state(for role: Role, attaching: Bool = false) -> CallState {
    var state = CallState(
      call: id, callee: facts.callee.user, phase: phase, version: version, at: facts.placedAt)
    switch stage {
    case .ringing:
      state.deadline = facts.deadline
      if case .leg(let leg) = role, !(attaching && legs[leg].state == .gone) {
        refineRinging(&state, legs[leg])
      }
    case .answered(let answer):
      state.by = answer.by
      state.at = answer.at
      if !sees(role, answer) { state.lost(to: answer) }
    case .ended(let end, let answer):
      if let answer, !sees(role, answer) {
        state.lost(to: answer)
      } else {
        state.reason = end.reason
        state.by = end.by
        state.at = end.at
        if case .caller = role {} else { state.missed = end.missed }
      }
    }
    if case .leg(let leg) = role { keepOwnAnswer(&state, legs[leg]) }
    return state
  }

  /// A device that declined or was busy for itself hears that again, whatever became of the call
  /// since: one end for each device, and the same answer to the same command.
  private func keepOwnAnswer(_ state: inout CallState, _ leg: Leg) {
    let reason: EndReason
    switch leg.state {
    case .declined: reason = .declined
    case .busy: reason = .busy
    case .waking, .delivered, .alerting, .won, .gone, .stopped: return
    }
    // Who declined for all has the call's own end.
    guard let leftAt = leg.leftAt else { return }
    state.phase = .ended
    state.reason = reason
    state.by = leg.party
    state.at = leftAt
    state.missed = false
  }

  /// Whether the answered call is this device's call.
  private func sees(_ role: Role, _ answer: AnsweredFacts) -> Bool {
    switch role {
    case .caller, .stranger: true
    case .leg(let leg): legs[leg].party.device == answer.by.device
    case .calleeDevice: false
    }
  }

  /// A leg that ended while the call rings on.
  private func refineRinging(_ state: inout CallState, _ leg: Leg) {
    let reason: EndReason
    switch leg.state {
    case .waking, .delivered, .alerting, .won: return
    case .declined: reason = .declined
    case .busy: reason = .busy
    case .gone: reason = .unreachable
    case .stopped: reason = .answeredElsewhere
    }
    state.phase = .ended
    state.reason = reason
    state.by = leg.party
    state.at = leg.leftAt ?? state.at
    state.deadline = nil
  }
}

extension CallState {
  fileprivate mutating func lost(to answer: AnsweredFacts) {
    phase = .ended
    reason = .answeredElsewhere
    by = answer.by
    at = answer.at
  }
}
