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
    for leg in legs {
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
    for diverted in diversions { add(.diverted(diverted)) }
    for device in noticedDevices { add(.pushed(device, .missedNotice)) }
    for signal in callerSignals.waiting {
      add(.signal(fromCaller: true, facts.caller.device, signal))
    }
    appendStage(add)
    appendSignalMarks(add)
    if isSettled { add(.settled) }
    if case .ended(let ending) = stage, ending.isRecorded { add(.recorded) }
  }

  private func appendStage(_ add: (JournalEntry.Change) -> Void) {
    switch stage {
    case .ringing: break
    case .answered(let conversation): appendConversation(conversation, add)
    case .ended(let ending):
      if let answer = ending.answer { add(.answered(answer)) }
      for move in moves { add(.moved(move)) }
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
    for move in moves { add(.moved(move)) }
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
  private func appendSignalMarks(_ add: (JournalEntry.Change) -> Void) {
    guard !isEnded else { return }
    var marks = callerSignals.marks(fromCaller: true, facts.caller.device)
    for leg in legs where leg.state.mayStillRing || leg.state == .won {
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
