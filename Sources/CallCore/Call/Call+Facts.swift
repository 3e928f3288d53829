/// How the facts of the journal change a call.
extension Call {
  /// Applies one fact. Applying it again changes nothing more. A fact that does not fit is ignored: the
  /// order of the journal decides.
  /// - Returns: whether the fact fits. A replay ignores that; a decision that does not fit is a bug.
  @discardableResult
  mutating func apply(_ change: JournalEntry.Change, at now: Timestamp, epoch: UInt64) -> Bool {
    switch change {
    // The shard makes a call of it.
    case .placed: return false
    case .legJoined(let party): return applyJoined(party, at: now)
    case .alerting(let device): return applyAlerting(device, at: now)
    case .answered(let answer): return applyAnswered(answer)
    case .moved(let move): return applyMoved(move, at: now, epoch: epoch)
    case .transferEnded(let end): return applyTransferEnded(end, at: now, epoch: epoch)
    case .diverted(let diverted): return applyDiverted(diverted)
    case .legEnded(let device, let end, let at):
      return applyLegEnded(device, end, at: at, readAt: now)
    case .connected(let fromCaller): return applyConnected(fromCaller: fromCaller, at: now)
    case .ended(let end): return applyEnded(end)
    case .signal(let fromCaller, let device, let signal):
      return applySignal(fromCaller: fromCaller, device, signal, at: now, epoch: epoch)
    case .callerLost(let until):
      callerLostUntil = until
      return !isEnded
    case .winnerLost(let until): return changeConversation { $0.winnerLostUntil = until }
    case .settled: return applySettled()
    case .recorded: return applyRecorded()
    case .pushed(let device, let purpose):
      applyPushed(device, purpose, at: now)
      return true
    }
  }

  private mutating func applyJoined(_ party: Party, at now: Timestamp) -> Bool {
    guard let leg = legIndex(party) else {
      legs.append(Leg(party: party, key: facts.key(of: party)))
      if isTransferring { ringAgain(legs.count - 1, party) }
      timeline.note(.joined, UInt8(clamping: legs.count - 1), at: now)
      return true
    }
    if isTransferring, !isInRound(leg) {
      guard leg != winner else { return false }
      ringAgain(leg, party)
      legs[leg].hadPart = true
      timeline.note(.joined, UInt8(clamping: leg), at: now)
      return true
    }
    // It had left, and is back.
    guard isSearching, case .gone = legs[leg].state else { return false }
    legs[leg].state = .waking
    return true
  }

  private mutating func applyAlerting(_ device: DeviceID, at now: Timestamp) -> Bool {
    guard let leg = legIndex(device), legs[leg].state.isLive else { return false }
    legs[leg].state = .alerting
    if hasWebhooks, firstAlerting == nil, isRinging {
      firstAlerting = FirstAlerting(leg: UInt8(clamping: leg), at: now)
    }
    timeline.note(.alerting, UInt8(clamping: leg), at: now)
    return true
  }

  private mutating func applyAnswered(_ answer: AnsweredFacts) -> Bool {
    guard case .ringing(let ringing) = stage else { return false }
    let winner = legIndex(answer.by) ?? legs.count
    if winner == legs.count {
      legs.append(Leg(party: answer.by, key: facts.key(of: answer.by)))
    }
    for index in legs.indices where index != winner {
      if legs[index].state.isLive { legs[index].state = .stopped }
      legs[index].signals.dropWaiting()
    }
    legs[winner].state = .won
    timeline.note(.answered, UInt8(clamping: winner), at: answer.at)
    stage = .answered(
      CallStage.Conversation(answer, winner: winner, callerLostUntil: ringing.callerLostUntil))
    return true
  }

  /// - Parameter at: nil in records of versions that did not store it.
  private mutating func applyLegEnded(
    _ device: DeviceID, _ end: LegEnd, at: Timestamp?, readAt: Timestamp
  ) -> Bool {
    guard let leg = legIndex(device), legs[leg].state.isLive else { return false }
    let endedAt = at ?? facts.placedAt
    let what: CallTimeline.What
    switch end {
    case .declinedHere: (legs[leg].state, what) = (.declined(at: endedAt), .declinedHere)
    case .busy: (legs[leg].state, what) = (.busy(at: endedAt), .busy)
    case .gone: (legs[leg].state, what) = (.gone(at: endedAt), .left)
    }
    timeline.note(what, UInt8(clamping: leg), at: at ?? readAt)
    legs[leg].endpoint.clear()
    legs[leg].signals.dropWaiting()
    legs[leg].ringPush.legEnded()
    return true
  }

  private mutating func applyConnected(fromCaller: Bool, at now: Timestamp) -> Bool {
    guard let winner else { return false }
    changeConversation {
      if fromCaller { $0.isCallerConnected = true } else { $0.isWinnerConnected = true }
    }
    timeline.note(.connected, fromCaller ? CallTimeline.caller : UInt8(clamping: winner), at: now)
    return true
  }

  private mutating func applySettled() -> Bool {
    guard case .ended(var ending) = stage else { return false }
    ending.isSettled = true
    stage = .ended(ending)
    return true
  }

  // MARK: The end

  private mutating func applyEnded(_ end: EndedFacts) -> Bool {
    guard !isEnded else { return false }
    for index in legs.indices where legs[index].state.isLive {
      let declined =
        end.reason == .declined && end.by.map { legs[index].key == facts.key(of: $0) } == true
      legs[index].state = declined ? .declined(at: nil) : .stopped
    }
    var answer = answer
    answer?.description = ""
    stage = .ended(CallStage.Ending(facts: end, answer: answer))
    noteEnd(end)
    releaseMemory()
    return true
  }

  private mutating func noteEnd(_ end: EndedFacts) {
    let by = end.by.flatMap { party -> UInt8? in
      if party.user.hasBytes(of: facts.caller.user), party.device == facts.caller.device {
        return CallTimeline.caller
      }
      return legIndex(party).map { UInt8(clamping: $0) }
    }
    let what: CallTimeline.What =
      switch end.reason {
      case _ where end.byApp: .endedByApp
      case .declined: .declined
      case .cancelled: .cancelled
      case .hungUp: .hungUp
      case .answeredElsewhere, .unanswered, .busy, .unreachable, .failed, .glare, .moved,
        .transferred:
        .ended
      }
    timeline.note(what, by ?? CallTimeline.call, at: end.at)
  }

  /// An ended call is kept for late devices; they need no descriptions and candidates.
  private mutating func releaseMemory() {
    callerSignals.release()
    for index in moves.indices { moves[index].description = "" }
    facts.description = ""
    facts.headers = []
    facts.pushData = ""
    caller.clear()
    for index in legs.indices {
      // The deliveries that wait for other legs say that these lost, which stays true.
      if legs[index].state == .won { legs[index].endpoint.clear() }
      legs[index].signals.release()
    }
  }

  // MARK: Signals

  private mutating func applySignal(
    fromCaller: Bool, _ device: DeviceID, _ signal: Signal, at now: Timestamp, epoch: UInt64
  ) -> Bool {
    guard !isEnded else { return false }
    if fromCaller {
      guard callerSignals.take(signal) else { return false }
      if let winner {
        legs[winner].endpoint.keep(delivery(.signal(signal), at: now, epoch: epoch))
      } else {
        callerSignals.wait(signal)
      }
      return true
    }
    guard let leg = legIndex(device), legs[leg].signals.take(signal) else { return false }
    if legs[leg].state == .won {
      // It is for nobody: whoever takes the other side makes an offer. It is a fact all the same, so that a new owner
      // knows it when it is repeated.
      guard !isCallerVacant else { return true }
      caller.keep(delivery(.signal(signal), at: now, epoch: epoch))
    } else if isSearching, legs[leg].state.isLive {
      legs[leg].signals.wait(signal)
    }
    return true
  }

  /// Restores the marks that a checkpoint holds of descriptions and candidates that were taken.
  mutating func restore(_ marks: [SignalMark]) {
    callerSignals.forgetTaken()
    for leg in legs.indices { legs[leg].signals.forgetTaken() }
    for mark in marks {
      if mark.fromCaller {
        callerSignals.restore(mark)
      } else if let leg = legIndex(mark.device) {
        legs[leg].signals.restore(mark)
      }
    }
  }
}
