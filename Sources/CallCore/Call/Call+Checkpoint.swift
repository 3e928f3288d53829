/// The fewest entries that rebuild a call.
extension Call {
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
    // One that rang since then has its pushes as a leg.
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
    // A decline for the user has no time of its own: it is the call's end.
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

  /// Transfers and moves in the order in which they came about, with the devices that rang last for each transfer.
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

  /// The marks of signals that were taken stand behind the signals themselves: of some of these nothing is left
  /// but a mark. They are in a second `placed`, which earlier versions ignore.
  ///
  /// Also those of devices that ring no more: each may ring again, for a transfer.
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
}
