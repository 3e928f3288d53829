/// Deliveries to the devices of a call, and their acknowledgements.
extension Call {
  /// - Parameter decided: when the event came about, where that was before now.
  mutating func deliverToCaller(
    _ event: Delivery.Event, decided: Timestamp? = nil, _ turn: inout Turn
  ) {
    guard !isCallerVacant else { return }
    let delivery = delivery(event, at: decided ?? turn.now, epoch: turn.epoch)
    caller.deliver(delivery, &turn)
  }

  /// - Parameter decided: as of `deliverToCaller`.
  mutating func deliver(
    to leg: Int, _ event: Delivery.Event, decided: Timestamp? = nil, _ turn: inout Turn
  ) {
    let delivery = delivery(event, at: decided ?? turn.now, epoch: turn.epoch)
    legs[leg].endpoint.deliver(delivery, &turn)
  }

  /// The invite of a leg, as it would be sent now.
  func invite(of leg: Int) -> Invite {
    if let transfer, isInRound(leg) { return invite(of: leg, for: transfer) }
    var invite = Invite(
      caller: facts.caller, deadline: facts.deadline, video: facts.video,
      description: facts.description, headers: facts.headers, pushData: facts.pushData,
      signals: callerSignals.waiting, isSecondCall: facts.isCalleeInCall)
    guard !diversions.isEmpty else { return invite }
    let user = legs[leg].party.user
    invite.divertedBy = divertedBy(of: user)
    if let guest = guest(user) { invite.isSecondCall = guests[guest].isInCall }
    return invite
  }

  /// Rings a device: the invite, with all that the caller has sent so far.
  mutating func invite(leg: Int, _ turn: inout Turn) {
    guard legs[leg].endpoint.session != nil else { return }
    legs[leg].endpoint.clear()
    legs[leg].invitation = legs[leg].invitation.wasSent ? .resent : .sent
    // Past the deadline the call ends in a moment, and the device is stopped then.
    guard facts.deadline > turn.now else { return }
    deliver(to: leg, .invite(invite(of: leg)), &turn)
    timeline.note(.invited, UInt8(clamping: leg), at: turn.now)
    planPushAfterSilence(leg, turn)
  }

  /// Stops a device that rang. One that was neither invited nor pushed has nothing to stop.
  /// - Parameters:
  ///   - news: what the device learns before.
  ///   - decided: when it was over for the device, where that was before now.
  mutating func stop(
    leg: Int, _ stop: Stop, after news: TransferNews? = nil, decided: Timestamp? = nil,
    _ turn: inout Turn
  ) {
    legs[leg].endpoint.clear()
    guard legs[leg].invitation.wasSent || legs[leg].ringPush.isDecided else { return }
    if let news { deliver(to: leg, .transfer(news), decided: decided, &turn) }
    deliver(to: leg, .stop(stop), decided: decided, &turn)
    timeline.note(.stopped, UInt8(clamping: leg), at: turn.now)
  }

  /// Sends the winner's device first that it has the call, since its app may have begun anew, and then the
  /// deliveries that it has not acknowledged.
  mutating func deliverAnswerToWinner(
    _ leg: Int, _ conversation: CallStage.Conversation, _ turn: inout Turn
  ) {
    let answer = conversation.answer
    let waiting = legs[leg].endpoint.takeAll()
    if answer.merged != nil, moves.isEmpty, !conversation.isWinnerConnected {
      deliverInvite(toWinner: leg, answer, &turn)
    }
    deliver(to: leg, .answered(Answered(by: legs[leg].party)), decided: answer.at, &turn)
    for delivery in waiting where delivery.event.isOfOtherSide {
      deliver(to: leg, delivery.event, decided: delivery.at, &turn)
    }
  }

  // MARK: Acknowledgements

  mutating func acknowledge(_ role: Role, _ version: UInt64, _ turn: inout Turn) {
    switch role {
    case .caller:
      if let event = caller.acknowledge(version), !event.isSignal {
        timeline.note(.acknowledged, CallTimeline.caller, at: turn.now)
      }
    case .leg(let leg):
      guard let event = legs[leg].endpoint.acknowledge(version) else { return }
      spoke(role, &turn)
      if !event.isSignal {
        timeline.note(.acknowledged, UInt8(clamping: leg), at: turn.now)
      }
      if case .invite = event { inviteAcknowledged(leg, &turn) }
    case .formerCaller(let index):
      guard formerCallers[index].endpoint.acknowledge(version) != nil else { return }
    case .calleeDevice, .stranger: return
    }
    settleIfAcknowledged(&turn)
  }

  /// A device has the invite: it acknowledged it, or sent a command about the call.
  mutating func inviteAcknowledged(_ leg: Int, _ turn: inout Turn) {
    let invited = legs[leg].endpoint.acknowledgeInvite()
    switch legs[leg].invitation {
    case .notSent, .sent: break
    case .resent:
      // Its command may be about an earlier invite: then it lacks what only this one carried.
      for signal in invited { deliver(to: leg, .signal(signal), &turn) }
    case .sentByFormerOwner:
      guard isRung(.leg(leg)) else { break }
      legs[leg].invitation = .sent
      legs[leg].endpoint.clear()
      guard isRinging else { break }
      for signal in callerSignals.waiting {
        deliver(to: leg, .signal(signal), &turn)
      }
    }
    // A device that is awake gets everything on its socket.
    if legs[leg].endpoint.session != nil {
      legs[leg].ringPush.deviceIsAwake()
    } else {
      legs[leg].ringPush.unschedule()
    }
    if legs[leg].state == .waking { legs[leg].state = .delivered }
    measureRingLatency(&turn)
  }

  /// Measured once, when every invited device has acknowledged its invite.
  private mutating func measureRingLatency(_ turn: inout Turn) {
    guard case .ringing(let ringing) = stage, !ringing.isRingLatencyMeasured,
      !legs.contains(where: { $0.invitation.wasSent && $0.state == .waking })
    else { return }
    changeRinging { $0.isRingLatencyMeasured = true }
    turn.outcome.ringLatencies.append(turn.now - facts.placedAt)
  }
}
