/// The takeover of a call by a shard's new owner, which did not see it placed (R10).
extension Call {
  /// All sessions are known now: every device gets the present state, and every side without a session gets
  /// its grace from now on.
  mutating func takeOver(devices: [User.Device], mayPush: Bool, _ turn: inout Turn) {
    timeline.note(.takenOver, CallTimeline.call, at: turn.now)
    // A checkpoint does not hold what was acknowledged, so the counts may be too low. Indices jump with the
    // epoch, as versions do, and none is used twice.
    callerSignals.skip(to: turn.epoch << 20)
    for leg in legs.indices {
      legs[leg].signals.skip(to: turn.epoch << 20)
      let device = device(of: legs[leg].party, devices)
      legs[leg].endpoint.session = device?.session
    }
    allowTime(turn)
    askGuestsAnew(turn.now)
    takeOverPushes(devices, mayPush: mayPush)
    confirmRefusals(&turn)
    switch stage {
    // Past its deadline no device is invited again. The call ends once the commands that waited are decided:
    // an answer that was sent in time still counts.
    case .ringing where facts.deadline <= turn.now: break
    case .ringing: takeOverRinging(devices, &turn)
    case .answered(let conversation): takeOverAnswered(conversation, &turn)
    case .ended(let ending): takeOverEnded(ending, &turn)
    }
  }

  /// A device that was pushed may have declined without its session, and the former owner may not have
  /// stopped its app there. One without a session is stopped when it attaches.
  private mutating func confirmRefusals(_ turn: inout Turn) {
    for leg in legs.indices where legs[leg].ringPush.isDecided {
      confirmRefusal(leg, &turn)
    }
    for leg in legs.indices { stopDiverted(leg, &turn) }
  }

  private mutating func takeOverRinging(_ devices: [User.Device], _ turn: inout Turn) {
    takeOverRung(&turn)
    for device in devices {
      guard let session = device.session, !device.onlyPlaces, legIndex(device.id) == nil,
        rings(facts.callee.user)
      else { continue }
      let party = Party(user: facts.callee.user, device: device.id, deviceName: device.name)
      attached(party, session, &turn)
    }
    watchLegs(turn)
    awaitCaller(turn)
    if !facts.isRingFixed, diversions.contains(where: { !$0.to.isEmpty }) {
      deliverToCaller(.ringsUntil(facts.deadline), &turn)
    }
    if let ringing = legs.first(where: { $0.state == .alerting }) {
      deliverToCaller(.ringing(by: ringing.party), &turn)
    }
  }

  private mutating func takeOverRung(_ turn: inout Turn) {
    for leg in legs.indices where legs[leg].state.isLive {
      if legs[leg].endpoint.session == nil {
        if legs[leg].invitation.wasSent { legs[leg].invitation = .sentByFormerOwner }
        _ = planPushAfterLoss(leg, graceful: false, turn)
      } else {
        invite(leg: leg, &turn)
      }
    }
  }

  private mutating func takeOverAnswered(_ conversation: CallStage.Conversation, _ turn: inout Turn)
  {
    let (answer, winner) = (conversation.answer, conversation.winner)
    for leg in legs.indices
    where !(isTransferring && isInRound(leg))
      && (legs[leg].state == .stopped || legs[leg].state.mayStillRing)
    {
      stop(leg: leg, Stop(reason: .answeredElsewhere, by: answer.by), decided: answer.at, &turn)
    }
    deliverMoves(&turn)
    // The winner recognises by its index what it has already.
    let forWinner = legs[winner].endpoint.takeAll()
    if legs[winner].endpoint.session != nil { askWinner(conversation, &turn) }
    for signal in callerSignals.waiting {
      deliver(to: winner, .signal(signal), &turn)
    }
    for delivery in forWinner { deliver(to: winner, delivery.event, &turn) }
    if legs[winner].endpoint.session == nil, conversation.winnerLostUntil == nil {
      changeConversation {
        $0.winnerLostUntil = turn.now + turn.limits.resumeGraceAnswered
      }
    }
    let forCaller = caller.takeAll()
    deliverToCaller(
      .answered(
        Answered(
          by: answer.by, description: moves.isEmpty ? answer.description : "",
          signals: legs[winner].signals.waiting)),
      decided: answer.at, &turn)
    for delivery in forCaller { deliverToCaller(delivery.event, &turn) }
    awaitCaller(turn)
    if isTransferring {
      takeOverRung(&turn)
      watchLegs(turn)
      if let ringing = legs.indices.first(where: { isInRound($0) && legs[$0].state == .alerting }) {
        deliverRinging(by: legs[ringing].party, &turn)
      }
    } else if isCallerVacant {
      callForVacantSide(&turn)
    }
  }

  /// A caller without a session gets its grace from now on.
  private mutating func awaitCaller(_ turn: borrowing Turn) {
    guard caller.session == nil, callerLostUntil == nil,
      let grace = callerResumeGrace(turn.limits)
    else { return }
    callerLostUntil = turn.now + grace
  }

  private mutating func takeOverEnded(_ ending: CallStage.Ending, _ turn: inout Turn) {
    let end = ending.facts
    for leg in legs.indices {
      switch legs[leg].state {
      case .stopped, .gone:
        let lost = ending.answer.map { Stop(reason: .answeredElsewhere, by: $0.by) }
        stop(
          leg: leg, lost ?? stop(of: end, for: leg),
          decided: ending.answer?.at ?? end.at, &turn)
      case .won:
        legs[leg].invitation = .sent
        stop(leg: leg, end.stop(for: nil), after: vacancyNews, decided: end.at, &turn)
      case .waking, .delivered, .alerting, .declined, .busy, .moved, .diverted: break
      }
    }
    deliverMoves(&turn)
    // The caller, too, where it ended the call: perhaps by staying away for too long, without knowing.
    deliverToCaller(.stop(end.stop(for: nil)), decided: end.at, &turn)
    settleIfAcknowledged(&turn)
  }
}
