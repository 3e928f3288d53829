/// How a call reaches its devices: sessions that begin and end, deliveries, and their acknowledgements.
extension Call {
  // MARK: Deliveries

  /// - Parameter decided: when the event came about, where that was before now.
  mutating func deliverToCaller(
    _ event: Delivery.Event, decided: Timestamp? = nil, _ turn: inout Turn
  ) {
    guard !isCallerVacant else { return }
    let delivery = delivery(event, at: decided ?? turn.now, epoch: turn.epoch)
    caller.deliver(delivery, &turn)
  }

  /// - Parameter decided: as for `deliverToCaller`.
  mutating func deliver(
    to leg: Int, _ event: Delivery.Event, decided: Timestamp? = nil, _ turn: inout Turn
  ) {
    let delivery = delivery(event, at: decided ?? turn.now, epoch: turn.epoch)
    legs[leg].endpoint.deliver(delivery, &turn)
  }

  /// Stops a device that rang. A device that was neither invited nor pushed has nothing to stop.
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

  // MARK: Acknowledgements

  mutating func acknowledge(
    _ role: Role, _ version: UInt64, on session: SessionRef, _ turn: inout Turn
  ) {
    switch role {
    case .caller:
      if let event = caller.acknowledge(version), !event.isSignal {
        timeline.note(.acknowledged, CallTimeline.caller, at: turn.now)
      }
    case .leg(let leg):
      guard let event = legs[leg].endpoint.acknowledge(version) else { return }
      noteContact(role, on: session, &turn)
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
      // The command may be about an earlier invite, and the device may lack signals that only this one carried.
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
    // A device that is awake needs no push.
    if legs[leg].endpoint.session != nil {
      legs[leg].ringPush.deviceIsAwake()
    } else {
      legs[leg].ringPush.unschedule()
    }
    if legs[leg].state == .waking { legs[leg].state = .delivered }
    measureRingLatency(&turn)
  }

  /// Records the ring latency once, when every invited device has acknowledged its invite.
  private mutating func measureRingLatency(_ turn: inout Turn) {
    guard case .ringing(let ringing) = stage, !ringing.isRingLatencyMeasured,
      !legs.contains(where: { $0.invitation.wasSent && $0.state == .waking })
    else { return }
    changeRinging { $0.isRingLatencyMeasured = true }
    turn.outcome.ringLatencies.append(turn.now - facts.placedAt)
  }

  // MARK: Sessions of the callees' devices

  /// A device of a callee has a session, perhaps a new one, and gets the present state.
  /// - Parameter joins: false for a device that only places calls. Only a push can have made it ring.
  mutating func attached(
    _ party: Party, _ session: SessionRef, joins: Bool = true, _ turn: inout Turn
  ) {
    switch role(of: UserKey(app: facts.callee.app, user: party.user), party.device) {
    case .caller: return
    case .formerCaller(let index): return formerCallerAttached(index, session, &turn)
    case .leg, .calleeDevice, .stranger: break
    }
    guard let leg = legIndex(party) else {
      guard isSearching, joins, rings(party.user, facts.key(of: party)) else { return }
      // A guest's shard says whether the guest takes the call. The callee is a guest as well if the call came back.
      if let index = guest(party.user) {
        guests[index].askAt = turn.now
        visitGuests(&turn)
      } else if !waitsForFirst(party) {
        join(party, session, &turn)
      }
      return
    }
    let same = legs[leg].endpoint.session == session
    legs[leg].endpoint.session = session
    if isInRound(leg) { legsLostUntil = nil }
    if !party.deviceName.isEmpty { legs[leg].party.deviceName = party.deviceName }
    if same { return legs[leg].endpoint.retransmitExhausted(&turn) }
    legs[leg].ringPush.deviceIsAwake()
    timeline.note(.attached, UInt8(clamping: leg), at: turn.now)
    if isInRound(leg) {
      if case .gone = legs[leg].state {
        commit(.legJoined(party), .urgent, &turn)
      }
      if legs[leg].state.isLive { return invite(leg: leg, &turn) }
    }
    if case .answered(let conversation) = stage, leg == conversation.winner {
      return askWinner(conversation, &turn)
    }
    legs[leg].endpoint.retransmitAll(&turn)
  }

  /// A session of a callee's device ended.
  /// - Parameter graceful: the device ended it; its socket did not break.
  mutating func calleeSessionLost(_ session: SessionRef, graceful: Bool, _ turn: inout Turn) {
    guard let leg = legs.firstIndex(where: { $0.endpoint.session == session }) else { return }
    legs[leg].endpoint.session = nil
    timeline.note(.sessionLost, UInt8(clamping: leg), at: turn.now)
    if isInRound(leg) {
      guard legs[leg].state.isLive else { return }
      let isExpected = planPushAfterLoss(leg, graceful: graceful, turn)
      if graceful, !isExpected {
        commit(.legEnded(legs[leg].key, .gone, at: turn.now), .urgent, &turn)
        endIfNobodyIsLeft(&turn)
      }
      watchLegs(turn)
    } else if legs[leg].state == .won, !isEnded {
      awaitsWinner = false
      guard case .answered(let conversation) = stage, conversation.winnerLostUntil == nil else {
        // The grace goes on: the device was attached, but did not confirm the call.
        return
      }
      let until = conversation.winnerSilentUntil ?? turn.now + turn.limits.resumeGraceAnswered
      commit(.winnerLost(until: until), .urgent, &turn)
    }
  }

  // MARK: The caller's sessions

  mutating func callerSessionLost(_ session: SessionRef, _ turn: inout Turn) {
    for index in formerCallers.indices where formerCallers[index].endpoint.session == session {
      formerCallers[index].endpoint.session = nil
    }
    guard caller.session == session else { return }
    caller.session = nil
    timeline.note(.sessionLost, CallTimeline.caller, at: turn.now)
    guard let grace = callerResumeGrace(turn.limits) else { return }
    commit(.callerLost(until: turn.now + grace), .urgent, &turn)
  }

  /// How long a caller whose session broke may stay away (R22); nil after the end, and while that side is vacant.
  func callerResumeGrace(_ limits: CallLimits) -> Span? {
    guard !isCallerVacant else { return nil }
    return switch stage {
    case .ringing: limits.resumeGraceRinging
    case .answered: limits.resumeGraceAnswered
    case .ended: nil
    }
  }

  /// The caller's device attached, or repeats that it is attached.
  mutating func callerAttached(by command: Command, _ turn: inout Turn) {
    guard let isNew = caller.attach(by: command) else { return }
    callerAttached(isNew: isNew, &turn)
  }

  mutating func callerAttached(isNew: Bool, _ turn: inout Turn) {
    if callerLostUntil != nil {
      commit(.callerLost(until: nil), .urgent, &turn)
    }
    if isNew {
      timeline.note(.attached, CallTimeline.caller, at: turn.now)
      // Before a new owner begins, it knows only a part of what the caller has to get.
      if turn.isServing { caller.retransmitAll(&turn) }
    } else {
      caller.retransmitExhausted(&turn)
    }
  }
}
