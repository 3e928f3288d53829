/// What a shard's new owner does with a call that it did not see placed.
extension Call {
  var callerKey: UserKey { UserKey(app: facts.callee.app, user: facts.caller.user) }

  /// The sessions are known now: every device hears the present state, and whoever has no session
  /// gets a grace from now on.
  mutating func takeOver(
    devices: [User.Device], mayPush: Bool, _ context: CallContext, into outcome: inout Outcome
  ) {
    timeline.note(.takenOver, CallTimeline.call, at: context.now)
    // What was acknowledged is in no checkpoint, so the counts may be too low: indices jump with the
    // epoch, as versions do, and none is used twice.
    callerSignalCount = max(callerSignalCount, context.epoch << 20)
    for leg in legs.indices {
      legs[leg].signalCount = max(legs[leg].signalCount, context.epoch << 20)
    }
    for leg in legs.indices {
      let device = devices.first { $0.id == legs[leg].party.device }
      legs[leg].endpoint.session = device?.session
    }
    allowTime(context)
    takeOverPushes(devices, mayPush: mayPush)
    tellRefusers(context, into: &outcome)
    switch stage {
    // Past its deadline nobody is told to ring again. It ends once what waited was decided: an answer
    // that was on its way in time still counts.
    case .ringing where facts.deadline <= context.now: break
    case .ringing: takeOverRinging(devices, context, into: &outcome)
    case .answered(let answer): takeOverAnswered(answer, context, into: &outcome)
    case .ended(let end, let answer): sayEnd(end, answer, context, into: &outcome)
    }
  }

  /// Who was pushed may have declined without its session, and its app there was not told yet. One that
  /// is away hears it when it attaches.
  private mutating func tellRefusers(_ context: CallContext, into outcome: inout Outcome) {
    for leg in legs.indices where legs[leg].pushes.contains(.ring) {
      switch legs[leg].state {
      case .declined, .busy: tellRefuser(leg, context, into: &outcome)
      case .waking, .delivered, .alerting, .won, .gone, .stopped: break
      }
    }
  }

  private mutating func takeOverRinging(
    _ devices: [User.Device], _ context: CallContext, into outcome: inout Outcome
  ) {
    for leg in legs.indices where legs[leg].state.isLive {
      if legs[leg].endpoint.session == nil {
        legs[leg].wasInvitedBefore = legs[leg].told
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
    if caller.session == nil, callerLostUntil == nil {
      callerLostUntil = context.now + context.limits.resumeGraceRinging
    }
    if let ringing = legs.first(where: { $0.state == .alerting }) {
      tellCaller(.ringing(by: ringing.party), context, into: &outcome)
    }
  }

  private mutating func takeOverAnswered(
    _ answer: AnsweredFacts, _ context: CallContext, into outcome: inout Outcome
  ) {
    for leg in legs.indices where legs[leg].state == .stopped || legs[leg].state == .gone {
      stop(
        leg: leg, Stop(reason: .answeredElsewhere, by: answer.by), decided: answer.at, context,
        into: &outcome)
    }
    if let winner {
      // What it has had already it knows by the index.
      let late = legs[winner].endpoint.outbox.map(\.delivery.event)
      legs[winner].endpoint.clear()
      for signal in callerSignals { tell(leg: winner, .signal(signal), context, into: &outcome) }
      for event in late { tell(leg: winner, event, context, into: &outcome) }
      if legs[winner].endpoint.session == nil, winnerLostUntil == nil {
        winnerLostUntil = context.now + context.limits.resumeGraceAnswered
      }
    }
    let late = caller.outbox.map(\.delivery.event)
    caller.clear()
    let early = winner.map { legs[$0].signals } ?? []
    tellCaller(
      .answered(Answered(by: answer.by, description: answer.description, signals: early)),
      decided: answer.at, context, into: &outcome)
    for event in late { tellCaller(event, context, into: &outcome) }
    if caller.session == nil, callerLostUntil == nil {
      callerLostUntil = context.now + context.limits.resumeGraceAnswered
    }
  }

  private mutating func sayEnd(
    _ end: EndedFacts, _ answer: AnsweredFacts?, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    for leg in legs.indices {
      switch legs[leg].state {
      case .stopped, .gone:
        let mine = answer.map { Stop(reason: .answeredElsewhere, by: $0.by) }
        stop(
          leg: leg, mine ?? Stop(reason: end.reason, by: end.by, missed: end.missed),
          decided: answer?.at ?? end.at, context, into: &outcome)
      case .won:
        legs[leg].told = true
        stop(
          leg: leg, Stop(reason: end.reason, by: end.by), decided: end.at, context,
          into: &outcome)
      case .waking, .delivered, .alerting, .declined, .busy: break
      }
    }
    // Also whoever ended it: perhaps by staying away too long, of which it knows nothing.
    tellCaller(
      .stop(Stop(reason: end.reason, by: end.by)), decided: end.at, context, into: &outcome)
    settleIfAllHeard(context, into: &outcome)
  }

  // MARK: Checkpoints

  /// The fewest entries that rebuild this call.
  func appendFacts(to entries: inout [JournalEntry]) {
    func add(_ change: JournalEntry.Change) {
      entries.append(JournalEntry(call: id, change: change))
    }
    var placed = facts
    placed.legs = legs.map(\.party)
    add(.placed(placed))
    for leg in legs {
      switch leg.state {
      case .alerting: add(.alerting(leg.party.device))
      // Who declined for all has no time of its own: the call's end says it.
      case .declined where leg.leftAt != nil:
        add(.legEnded(leg.party.device, .declinedHere, at: leg.leftAt))
      case .busy: add(.legEnded(leg.party.device, .busy, at: leg.leftAt))
      case .gone: add(.legEnded(leg.party.device, .gone, at: leg.leftAt))
      case .waking, .delivered, .won, .stopped, .declined: break
      }
      for purpose in leg.pushes.purposes { add(.pushed(leg.party.device, purpose)) }
      for signal in leg.signals where leg.state.isLive || leg.state == .won {
        add(.signal(fromCaller: false, leg.party.device, signal))
      }
    }
    for device in noticed { add(.pushed(device, .missedNotice)) }
    for signal in callerSignals {
      add(.signal(fromCaller: true, facts.caller.device, signal))
    }
    appendStage(add)
    appendSignalsTaken(add)
    if settled { add(.settled) }
  }

  /// Behind the signals themselves, of which some are known no more, since later ones took their place.
  /// An earlier version passes over a call that is placed again.
  private func appendSignalsTaken(_ add: (JournalEntry.Change) -> Void) {
    guard !isEnded else { return }
    var marks = callerSignalMemory.marks(fromCaller: true, facts.caller.device)
    for leg in legs where leg.state.mayStillRing || leg.state == .won {
      marks += leg.signalMemory.marks(fromCaller: false, leg.party.device)
    }
    guard !marks.isEmpty else { return }
    var again = facts
    again.description = ""
    again.headers = []
    again.legs = []
    again.signalsTaken = marks
    add(.placed(again))
  }

  private func appendStage(_ add: (JournalEntry.Change) -> Void) {
    switch stage {
    case .ringing: break
    case .answered(let answer): appendAnswer(answer, add)
    case .ended(let end, let answer):
      if let answer { add(.answered(answer)) }
      add(.ended(end))
    }
    if !isEnded {
      if let callerLostUntil { add(.callerLost(until: callerLostUntil)) }
      if let winnerLostUntil { add(.winnerLost(until: winnerLostUntil)) }
    }
  }

  private func appendAnswer(_ answer: AnsweredFacts, _ add: (JournalEntry.Change) -> Void) {
    add(.answered(answer))
    if callerConnected { add(.connected(caller: true)) }
    if winnerConnected { add(.connected(caller: false)) }
    // Late signals that nobody has acknowledged yet.
    for (fromCaller, outbox) in [
      (true, winner.map { legs[$0].endpoint.outbox } ?? []), (false, caller.outbox),
    ] {
      for pending in outbox {
        guard case .signal(let signal) = pending.delivery.event else { continue }
        let device = fromCaller ? facts.caller.device : answer.by.device
        add(.signal(fromCaller: fromCaller, device, signal))
      }
    }
  }
}
