import CallClient
import CallCore
import CallWire

/// The deliveries of the twin to devices, and the states that it replies with.
extension FaultyTwin {
  func end(_ call: Call, _ reason: EndReason, by: Party?, silent: Party? = nil) {
    call.stage = .ended(reason, by: by)
    let toCaller = plays(.tellsSidesDifferently, call) ? EndReason.unreachable : reason
    if silent != call.caller { tell(call, call.caller, .stop(Stop(reason: toCaller, by: by))) }
    cleanUpSleepers(call, reason, by: by)
    for leg in call.legs.indices where call.legs[leg].isLive && call.legs[leg].party != silent {
      call.legs[leg].isLive = false
      tell(
        call, call.legs[leg].party,
        .stop(Stop(reason: reason, by: by, missed: isMissed(call, reason))))
    }
  }

  /// A user who declined on one device has seen the call. One member of a group declines for itself alone.
  func isMissed(_ call: Call, _ reason: EndReason) -> Bool {
    reason.isMissedCall
      && (groups[call.callee] != nil || !call.legs.contains { $0.left == .declined })
  }

  func invite(_ call: Call, _ leg: Int) {
    call.legs[leg].wasTold = true
    tell(call, call.legs[leg].party, inviteEvent(call))
  }

  func inviteEvent(_ call: Call) -> Delivery.Event {
    var invite = Invite(caller: call.caller, deadline: call.deadline, signals: call.callerSignals)
    invite.caller.name = call.callerName
    invite.isSecondCall = call.isSecond
    if call.target != call.callee, !plays(.forgetsTheForwarder, call) {
      invite.divertedBy = call.callee
    }
    return .invite(invite)
  }

  func tell(_ call: Call, _ party: Party, _ event: Delivery.Event) {
    call.version += 1
    let delivery = Delivery(
      call: call.id, callee: call.callee, version: call.version, at: loop.now, event: event)
    if party == call.caller, call.callerIsAway { return call.callerMissed.append(delivery) }
    if let leg = leg(call, party) { call.legs[leg].last = delivery }
    send(delivery, to: party)
    // Acknowledgements get lost in life: some deliveries are sent twice.
    guard call.version % 7 == 0 else { return }
    later(.milliseconds(500)) { [self] in
      // Only the newest delivery to a device is retransmitted, and no invite to one that stopped.
      guard let leg = leg(call, party), call.legs[leg].last == delivery else { return }
      if case .invite = event {
        guard case .ringing = call.stage, call.legs[leg].isLive else { return }
      }
      send(delivery, to: party)
    }
  }

  private func send(_ delivery: Delivery, to party: Party) {
    sessions[party]?.deliver(.delivery(delivery))
  }

  func tellPresentState(_ call: Call, _ party: Party, wokenFor: CallID?) {
    guard let leg = leg(call, party) else { return }
    guard call.legs[leg].wasTold || call.legs[leg].isPushed else { return }
    if case .ended = call.stage, call.id == wokenFor, !call.legs[leg].wasTold,
      plays(.ringsTheWokenAfterEnd, call)
    {
      return invite(call, leg)
    }
    if case .ringing = call.stage {
      guard call.legs[leg].isLive else { return }
      invite(call, leg)
      // A client that rings already ignores the signals of an invite.
      for signal in call.callerSignals { tell(call, party, .signal(signal)) }
    } else if let last = call.legs[leg].last, case .stop = last.event {
      send(last, to: party)
    }
  }

  func state(_ call: Call, _ party: Party) -> CallState {
    var state = CallState(
      call: call.id, callee: call.callee, phase: .ringing, version: call.version, at: call.placedAt)
    switch call.stage {
    case .ringing:
      state.deadline = call.deadline
      if let leg = leg(call, party), !call.legs[leg].isLive {
        state.phase = .ended
        state.reason = call.legs[leg].left ?? .declined
        state.by = party
      }
    case .answered(let winner):
      state.by = call.legs[winner].party
      let isIn = party == call.caller || party == state.by
      state.phase = isIn ? .answered : .ended
      if !isIn { (state.reason, state.by) = (.answeredElsewhere, call.answerer) }
      // One that had the call was told who has it now.
      if !isIn, let leg = leg(call, party), case .stop(let stop)? = call.legs[leg].last?.event {
        (state.reason, state.by) = (stop.reason, stop.by)
      }
    case .ended(let reason, let by):
      state.phase = .ended
      state.reason = reason
      state.by = by
      // A device that lost, or was stopped, before the end keeps its own reason.
      if let leg = leg(call, party), case .stop(let stop)? = call.legs[leg].last?.event {
        state.reason = stop.reason
        state.by = stop.by
      }
      if state.reason == .glare || state.reason == .transferred {
        state.survivor = call.survivor
      }
    }
    refine(&state, call, party)
    return state
  }

  func leg(_ call: Call, _ party: Party) -> Int? {
    call.legs.firstIndex { $0.party == party }
  }

  func later(_ span: Span, _ action: @escaping () -> Void) {
    loop.schedule(at: loop.now + span, action)
  }
}
