/// What a shard's new owner does with a call that it did not see placed (R10).
extension Call {
  /// All sessions are known now: every device gets the present state, and every side without a session gets
  /// its grace from now on.
  mutating func takeOver(
    devices: [User.Device], mayPush: Bool, _ context: CallContext, into outcome: inout Outcome
  ) {
    timeline.note(.takenOver, CallTimeline.call, at: context.now)
    // A checkpoint does not hold what was acknowledged, so the counts may be too low. Indices jump with the
    // epoch, as versions do, and none is used twice.
    callerSignals.skip(to: context.epoch << 20)
    for leg in legs.indices {
      legs[leg].signals.skip(to: context.epoch << 20)
      let device = devices.first { $0.id == legs[leg].party.device }
      legs[leg].endpoint.session = device?.session
    }
    allowTime(context)
    takeOverPushes(devices, mayPush: mayPush)
    confirmRefusals(context, into: &outcome)
    switch stage {
    // Past its deadline no device is invited again. The call ends once the commands that waited are decided:
    // an answer that was sent in time still counts.
    case .ringing where facts.deadline <= context.now: break
    case .ringing: takeOverRinging(devices, context, into: &outcome)
    case .answered(let conversation): takeOverAnswered(conversation, context, into: &outcome)
    case .ended(let ending): takeOverEnded(ending, context, into: &outcome)
    }
  }

  /// A device that was pushed may have declined without its session, and the former owner may not have
  /// stopped its app there. One without a session is stopped when it attaches.
  private mutating func confirmRefusals(_ context: CallContext, into outcome: inout Outcome) {
    for leg in legs.indices where legs[leg].ringPush.isDecided {
      confirmRefusal(leg, context, into: &outcome)
    }
  }

  private mutating func takeOverRinging(
    _ devices: [User.Device], _ context: CallContext, into outcome: inout Outcome
  ) {
    for leg in legs.indices where legs[leg].state.isLive {
      if legs[leg].endpoint.session == nil {
        if legs[leg].invitation.wasSent { legs[leg].invitation = .sentByFormerOwner }
        _ = planPushAfterLoss(leg, graceful: false, context)
      } else {
        invite(leg: leg, context, into: &outcome)
      }
    }
    for device in devices {
      guard let session = device.session, legIndex(device.id) == nil else { continue }
      let party = Party(user: facts.callee.user, device: device.id, deviceName: device.name)
      attached(party, session, context, into: &outcome)
    }
    watchLegs(context)
    awaitCaller(context)
    if let ringing = legs.first(where: { $0.state == .alerting }) {
      deliverToCaller(.ringing(by: ringing.party), context, into: &outcome)
    }
  }

  private mutating func takeOverAnswered(
    _ conversation: CallStage.Conversation, _ context: CallContext, into outcome: inout Outcome
  ) {
    let (answer, winner) = (conversation.answer, conversation.winner)
    for leg in legs.indices
    where legs[leg].state == .stopped || legs[leg].state.mayStillRing {
      stop(
        leg: leg, Stop(reason: .answeredElsewhere, by: answer.by), decided: answer.at, context,
        into: &outcome)
    }
    // The winner recognises by its index what it has already.
    let forWinner = legs[winner].endpoint.takeAll()
    for signal in callerSignals.waiting {
      deliver(to: winner, .signal(signal), context, into: &outcome)
    }
    for delivery in forWinner { deliver(to: winner, delivery.event, context, into: &outcome) }
    if legs[winner].endpoint.session == nil, conversation.winnerLostUntil == nil {
      changeConversation {
        $0.winnerLostUntil = context.now + context.limits.resumeGraceAnswered
      }
    }
    let forCaller = caller.takeAll()
    deliverToCaller(
      .answered(
        Answered(
          by: answer.by, description: answer.description, signals: legs[winner].signals.waiting)),
      decided: answer.at, context, into: &outcome)
    for delivery in forCaller { deliverToCaller(delivery.event, context, into: &outcome) }
    awaitCaller(context)
  }

  /// A caller without a session gets its grace from now on.
  private mutating func awaitCaller(_ context: CallContext) {
    guard caller.session == nil, callerLostUntil == nil,
      let grace = callerResumeGrace(context.limits)
    else { return }
    callerLostUntil = context.now + grace
  }

  private mutating func takeOverEnded(
    _ ending: CallStage.Ending, _ context: CallContext, into outcome: inout Outcome
  ) {
    let end = ending.facts
    for leg in legs.indices {
      switch legs[leg].state {
      case .stopped, .gone:
        let lost = ending.answer.map { Stop(reason: .answeredElsewhere, by: $0.by) }
        stop(
          leg: leg, lost ?? Stop(reason: end.reason, by: end.by, missed: end.missed),
          decided: ending.answer?.at ?? end.at, context, into: &outcome)
      case .won:
        legs[leg].invitation = .sent
        stop(
          leg: leg, Stop(reason: end.reason, by: end.by), decided: end.at, context,
          into: &outcome)
      case .waking, .delivered, .alerting, .declined, .busy: break
      }
    }
    // The caller, too, where it ended the call: perhaps by staying away for too long, without knowing.
    deliverToCaller(
      .stop(Stop(reason: end.reason, by: end.by)), decided: end.at, context, into: &outcome)
    settleIfAcknowledged(context, into: &outcome)
  }
}
