/// What the devices of a call are sent, and what they acknowledge.
extension Call {
  /// - Parameter decided: when the event came about, where that was before now.
  mutating func deliverToCaller(
    _ event: Delivery.Event, decided: Timestamp? = nil, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let delivery = delivery(event, at: decided ?? context.now, epoch: context.epoch)
    caller.deliver(delivery, context, into: &outcome)
  }

  /// - Parameter decided: as of `deliverToCaller`.
  mutating func deliver(
    to leg: Int, _ event: Delivery.Event, decided: Timestamp? = nil, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let delivery = delivery(event, at: decided ?? context.now, epoch: context.epoch)
    legs[leg].endpoint.deliver(delivery, context, into: &outcome)
  }

  /// Rings a device: the invite, with all that the caller has sent so far.
  mutating func invite(leg: Int, _ context: CallContext, into outcome: inout Outcome) {
    guard legs[leg].endpoint.session != nil else { return }
    legs[leg].endpoint.clear()
    legs[leg].invitation = legs[leg].invitation.wasSent ? .resent : .sent
    // Past the deadline the call ends in a moment, and the device is stopped then.
    guard facts.deadline > context.now else { return }
    let invite = Invite(
      caller: facts.caller, deadline: facts.deadline, video: facts.video,
      description: facts.description, headers: facts.headers, signals: callerSignals.waiting)
    deliver(to: leg, .invite(invite), context, into: &outcome)
    timeline.note(.invited, UInt8(clamping: leg), at: context.now)
    planPushAfterSilence(leg, context)
  }

  /// Stops a device that rang. One that was neither invited nor pushed has nothing to stop.
  /// - Parameter decided: when it was over for the device, where that was before now.
  mutating func stop(
    leg: Int, _ stop: Stop, decided: Timestamp? = nil, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    legs[leg].endpoint.clear()
    guard legs[leg].invitation.wasSent || legs[leg].ringPush.isDecided else { return }
    deliver(to: leg, .stop(stop), decided: decided, context, into: &outcome)
    timeline.note(.stopped, UInt8(clamping: leg), at: context.now)
  }

  /// Sends the winner's device first that it has the call, since its app may have begun anew, and then the
  /// deliveries that it has not acknowledged.
  mutating func deliverAnswerToWinner(
    _ leg: Int, _ answer: AnsweredFacts, _ context: CallContext, into outcome: inout Outcome
  ) {
    let waiting = legs[leg].endpoint.takeAll()
    deliver(
      to: leg, .answered(Answered(by: answer.by)), decided: answer.at, context, into: &outcome)
    for delivery in waiting {
      if case .answered = delivery.event { continue }
      deliver(to: leg, delivery.event, decided: delivery.at, context, into: &outcome)
    }
  }

  // MARK: Acknowledgements

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
      if case .invite = event { inviteAcknowledged(leg, context, into: &outcome) }
    case .calleeDevice, .stranger: return
    }
    settleIfAcknowledged(context, into: &outcome)
  }

  /// A device has the invite: it acknowledged it, or sent a command about the call.
  mutating func inviteAcknowledged(
    _ leg: Int, _ context: CallContext, into outcome: inout Outcome
  ) {
    let invited = legs[leg].endpoint.acknowledgeInvite()
    switch legs[leg].invitation {
    case .notSent, .sent: break
    case .resent:
      // Its command may be about an earlier invite: then it lacks what only this one carried.
      for signal in invited { deliver(to: leg, .signal(signal), context, into: &outcome) }
    case .sentByFormerOwner:
      guard isRinging, legs[leg].state.isLive else { break }
      legs[leg].invitation = .sent
      legs[leg].endpoint.clear()
      for signal in callerSignals.waiting {
        deliver(to: leg, .signal(signal), context, into: &outcome)
      }
    }
    // A device that is awake gets everything on its socket.
    if legs[leg].endpoint.session != nil {
      legs[leg].ringPush.deviceIsAwake()
    } else {
      legs[leg].ringPush.unschedule()
    }
    if legs[leg].state == .waking { legs[leg].state = .delivered }
    measureRingLatency(context, into: &outcome)
  }

  /// Measured once, when every invited device has acknowledged its invite.
  private mutating func measureRingLatency(_ context: CallContext, into outcome: inout Outcome) {
    guard case .ringing(let ringing) = stage, !ringing.isRingLatencyMeasured,
      !legs.contains(where: { $0.invitation.wasSent && $0.state == .waking })
    else { return }
    changeRinging { $0.isRingLatencyMeasured = true }
    outcome.ringLatencies.append(context.now - facts.placedAt)
  }
}
