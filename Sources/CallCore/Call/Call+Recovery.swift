/// The takeover of a call by a shard's new owner (R10), and the checkpoint from which it rebuilds the call.
extension Call {
  /// Takes the call over once all sessions are known. Every device gets the present state, and every side without a
  /// session gets its grace from now on.
  mutating func takeOver(devices: [User.Device], mayPush: Bool, _ turn: inout Turn) {
    timeline.note(.takenOver, CallTimeline.call, at: turn.now)
    // A checkpoint lacks signals that were acknowledged, so the last indices may be too low. Indices jump with the
    // epoch, as versions do, so none is used twice.
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
    // Past its deadline no device is invited again. The call ends once the queued commands are decided, since an
    // answer that was sent in time still counts.
    case .ringing where facts.deadline <= turn.now: break
    case .ringing: takeOverRinging(devices, &turn)
    case .answered(let conversation): takeOverAnswered(conversation, &turn)
    case .ended(let ending): takeOverEnded(ending, &turn)
    }
  }

  /// Stops devices that refused or were left. A device that was pushed may have declined over another session, and the
  /// former owner may not have stopped its app. A device without a session is stopped when it attaches.
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
    for leg in legs.indices {
      // A device that had left while it rang has come back before this owner began.
      if case .gone = legs[leg].state, isInRound(leg), legs[leg].endpoint.session != nil {
        commit(.legJoined(legs[leg].party), .urgent, &turn)
      }
      guard legs[leg].state.isLive else { continue }
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
    // The winner recognises signals that it has by their indices.
    let forWinner = legs[winner].endpoint.drain()
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
    let forCaller = caller.drain()
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
    // The caller gets it even if it ended the call: it may have done so by staying away for too long.
    deliverToCaller(.stop(end.stop(for: nil)), decided: end.at, &turn)
    settleIfAcknowledged(&turn)
  }

  // MARK: Checkpoints

  /// Appends the fewest entries that rebuild the call.
  func appendFacts(to entries: inout [JournalEntry]) {
    func add(_ change: JournalEntry.Change) {
      entries.append(JournalEntry(call: id, change: change))
    }
    var placed = facts
    placed.legs = legs.map(\.party)
    placed.caller = placer
    placed.firstAlerting = firstAlerting
    add(.placed(placed))
    for leg in legs where leg.round == 0 { appendFacts(of: leg, add) }
    for diverted in diversions { add(.diverted(diverted)) }
    // The pushes to a device that rang since then are listed with its leg.
    for device in noticedDevices where legIndex(device) == nil {
      add(.pushed(device, .missedNotice))
    }
    for signal in callerSignals.waiting {
      add(.signal(fromCaller: true, facts.caller.device, signal))
    }
    appendStage(add)
    appendSignalMarks(add)
    if isSettled { add(.settled) }
    if case .ended(let ending) = stage, ending.isRecorded { add(.recorded) }
  }

  private func appendFacts(of leg: Leg, _ add: (JournalEntry.Change) -> Void) {
    let device = leg.key
    switch leg.state {
    case .alerting: add(.alerting(device))
    // A decline for the user has no time of its own, because it is the call's end.
    case .declined(.some(let at)): add(.legEnded(device, .declinedHere, at: at))
    case .busy(let at): add(.legEnded(device, .busy, at: at))
    case .gone(let at): add(.legEnded(device, .gone, at: at))
    case .waking, .delivered, .won, .moved, .stopped, .diverted, .declined: break
    }
    for purpose in leg.pushPurposes { add(.pushed(device, purpose)) }
    for signal in leg.signals.waiting where leg.state.isLive || leg.state == .won {
      add(.signal(fromCaller: false, device, signal))
    }
  }

  /// Appends transfers and moves in their order, with the devices that rang last for each transfer.
  private func appendMoves(_ add: (JournalEntry.Change) -> Void) {
    var next = 0
    for (index, transfer) in transfers.enumerated() {
      for move in moves[next..<transfer.movesBefore] { add(.moved(move)) }
      next = transfer.movesBefore
      add(.diverted(transfer.start))
      for leg in legs where Int(leg.round) == index + 1 {
        add(.legJoined(leg.party))
        appendFacts(of: leg, add)
      }
      for diverted in transfer.diversions.dropFirst() { add(.diverted(diverted)) }
      // While it was pending, devices may have pulled the call.
      switch transfer.outcome {
      case .pending: break
      case .moved(let move):
        for move in moves[next...move] { add(.moved(move)) }
        next = move + 1
      case .failed(let end): add(.transferEnded(end))
      }
    }
    for move in moves[next...] { add(.moved(move)) }
  }

  private func appendStage(_ add: (JournalEntry.Change) -> Void) {
    switch stage {
    case .ringing: break
    case .answered(let conversation): appendConversation(conversation, add)
    case .ended(let ending):
      if let answer = ending.answer { add(.answered(answer)) }
      appendMoves(add)
      add(.ended(ending.facts))
    }
    if let callerLostUntil { add(.callerLost(until: callerLostUntil)) }
    if case .answered(let conversation) = stage, let until = conversation.winnerLostUntil {
      add(.winnerLost(until: until))
    }
  }

  private func appendConversation(
    _ conversation: CallStage.Conversation, _ add: (JournalEntry.Change) -> Void
  ) {
    add(.answered(conversation.answer))
    appendMoves(add)
    if conversation.isCallerConnected { add(.connected(caller: true)) }
    if conversation.isWinnerConnected { add(.connected(caller: false)) }
    // Late signals that are not acknowledged.
    func addSignals(fromCaller: Bool, _ device: DeviceID, in outbox: [Endpoint.Pending]) {
      for pending in outbox {
        guard case .signal(let signal) = pending.delivery.event else { continue }
        add(.signal(fromCaller: fromCaller, device, signal))
      }
    }
    addSignals(fromCaller: true, facts.caller.device, in: legs[conversation.winner].endpoint.outbox)
    addSignals(
      fromCaller: false, legs[conversation.winner].key, in: caller.outbox)
  }

  /// Appends the marks of accepted signals, behind the signals that are left. They are in a second `placed`, which
  /// earlier versions ignore. Devices that stopped ringing are included, since each may ring again for a transfer.
  private func appendSignalMarks(_ add: (JournalEntry.Change) -> Void) {
    guard !isEnded else { return }
    var marks = callerSignals.marks(fromCaller: true, facts.caller.device)
    for leg in legs {
      marks += leg.signals.marks(fromCaller: false, leg.key)
    }
    guard !marks.isEmpty else { return }
    var again = facts
    again.description = ""
    again.headers = []
    again.pushData = ""
    again.legs = []
    again.signalsTaken = marks
    add(.placed(again))
  }

  /// Restores the marks of accepted descriptions and candidates from a checkpoint.
  mutating func restore(_ marks: [SignalMark]) {
    callerSignals.forgetRequests()
    for leg in legs.indices { legs[leg].signals.forgetRequests() }
    for mark in marks {
      if mark.fromCaller {
        callerSignals.restore(mark)
      } else if let leg = legIndex(mark.device) {
        legs[leg].signals.restore(mark)
      }
    }
  }
}
