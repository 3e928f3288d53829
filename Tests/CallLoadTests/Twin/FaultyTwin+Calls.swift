import CallClient
import CallCore
import CallWire

/// The twin's rules of calls, and the faults that break them.
extension FaultyTwin {
  // MARK: The callee's devices

  func alerting(_ call: Call, _ party: Party) -> ServerReply? {
    if case .ringing = call.stage, leg(call, party) != nil {
      tell(call, call.caller, .ringing(by: party))
    }
    return .call(state(call, party))
  }

  func answer(_ call: Call, _ party: Party) -> ServerReply? {
    guard let leg = leg(call, party) else { return .error(CallError(.notParty)) }
    switch call.stage {
    case .ringing:
      guard call.legs[leg].isLive else { return .error(CallError(.wrongState)) }
      if plays(.ignoresAnswers, call) { return .call(state(call, party)) }
      return win(call, leg)
    case .answered(let winner):
      if winner != leg, plays(.tellsTwoWinners, call) {
        return .answer(won: true, state(call, call.legs[winner].party))
      }
      return .answer(won: winner == leg, state(call, party))
    case .ended: return .answer(won: false, state(call, party))
    }
  }

  @discardableResult
  func win(_ call: Call, _ leg: Int) -> ServerReply {
    let winner = call.legs[leg].party
    call.stage = .answered(leg)
    (call.answerer, call.answeredAt) = (winner, loop.now)
    answered[call.id] = call
    tell(call, call.caller, .answered(Answered(by: winner, signals: call.legs[leg].signals)))
    if call.legs[leg].isPushed, plays(.cleansUpTheWinner, call) {
      push(call, leg, .ended, reason: .answeredElsewhere)
    }
    cleanUpSleepers(call, .answeredElsewhere, by: winner)
    let losers = call.legs.indices.filter { $0 != leg && call.legs[$0].isLive }
    for (place, loser) in losers.enumerated() {
      call.legs[loser].isLive = false
      if place == 0, plays(.forgetsALoser, call) { continue }
      stopLoser(call, loser, winner)
    }
    if plays(.tellsNoWinner, call) { return .done }
    let state = state(call, winner)
    if plays(.tellsWinnerItLost, call) {
      later(.milliseconds(20)) { [self] in
        tell(call, winner, .stop(Stop(reason: .answeredElsewhere, by: winner)))
      }
    }
    return .answer(won: true, state)
  }

  private func stopLoser(_ call: Call, _ loser: Int, _ winner: Party) {
    let party = call.legs[loser].party
    var stop = Stop(reason: .answeredElsewhere, by: winner)
    if plays(.tellsWrongReason, call) { stop = Stop(reason: .cancelled, by: call.caller) }
    if plays(.namesWrongWinner, call) { stop.by = party }
    if plays(.tellsMissed, call) { stop.missed = true }
    tell(call, party, .stop(stop))
    if plays(.ringsAfterEnd, call) {
      later(.milliseconds(30)) { [self] in tell(call, party, inviteEvent(call)) }
    }
    if plays(.tellsTwoEnds, call) {
      later(.milliseconds(30)) { [self] in tell(call, party, .stop(Stop(reason: .unanswered))) }
    }
  }

  func declineEverywhere(_ call: Call, _ party: Party) -> ServerReply? {
    guard case .ringing = call.stage, let leg = leg(call, party), call.legs[leg].isLive else {
      return .call(state(call, party))
    }
    if groups[call.callee] != nil { return declineForMember(call, leg) }
    call.legs[leg].isLive = false
    end(call, .declined, by: party, silent: party)
    return .call(state(call, party))
  }

  func leave(_ call: Call, _ party: Party, _ reason: EndReason) -> ServerReply? {
    guard case .ringing = call.stage, let leg = leg(call, party), call.legs[leg].isLive else {
      return .call(state(call, party))
    }
    call.legs[leg].isLive = false
    call.legs[leg].left = reason
    if !call.legs.contains(where: { $0.isLive }), !ringNext(call) { end(call, reason, by: party) }
    return .done
  }

  // MARK: The caller

  func cancel(_ call: Call, _ party: Party) -> ServerReply? {
    if case .ringing = call.stage, party == call.caller {
      end(call, .cancelled, by: party, silent: party)
    }
    return .call(state(call, party))
  }

  func resume(_ call: Call, _ party: Party) -> ServerReply? {
    guard party == call.caller else { return .error(CallError(.notParty)) }
    call.callerIsAway = false
    let missed = call.callerMissed
    call.callerMissed = []
    for delivery in missed { sessions[party]?.deliver(.delivery(delivery)) }
    return .call(state(call, party))
  }

  // MARK: Both sides

  func hangUp(_ call: Call, _ party: Party) -> ServerReply? {
    // A device from which the call has moved is not in it.
    if case .answered(let winner) = call.stage,
      case let sides = sides(call, winner), [sides.caller, sides.callee].contains(party)
    {
      let forgets = plays(.forgetsTheOtherSide, call)
      call.stage = .ended(.hungUp, by: party)
      noteTalk(call)
      cancelTransfer(call, by: party)
      if !forgets {
        let other = party == sides.callee ? sides.caller : sides.callee
        tell(call, other, .stop(Stop(reason: .hungUp, by: party)))
      }
    }
    return .call(state(call, party))
  }

  func pull(_ call: Call, _ party: Party, _ request: PullRequest) -> ServerReply? {
    guard case .answered(let winner) = call.stage,
      call.legs[winner].party.device == request.from, let leg = leg(call, party)
    else { return .answer(won: false, state(call, party)) }
    let former = call.legs[winner].party
    call.stage = .answered(leg)
    // The stop that it was told when it lost is over.
    call.legs[leg].last = nil
    call.moves += 1
    tell(call, former, .stop(Stop(reason: .moved, by: party)))
    if !plays(.tellsNobodyOfMoves, call) {
      tell(call, call.caller, .moved(Moved(to: party, number: call.moves)))
    }
    return .answer(won: true, state(call, party))
  }

  func signal(_ call: Call, _ party: Party, _ kind: SignalKind, _ body: String) -> ServerReply? {
    if kind == .information, case .ringing = call.stage { return .error(CallError(.wrongState)) }
    call.signalCount += 1
    let signal = Signal(index: call.signalCount, kind: kind, body: body)
    switch call.stage {
    case .ringing where party == call.caller:
      call.callerSignals.append(signal)
      for leg in call.legs where leg.isLive && leg.wasTold { passOn(call, signal, to: leg.party) }
    case .ringing:
      if let leg = leg(call, party) { call.legs[leg].signals.append(signal) }
    case .answered(let winner):
      let (caller, callee) = sides(call, winner)
      guard party == caller || party == callee else { break }
      let other = party == callee ? caller : callee
      if let transfer = call.transfer, transfer.taken?.by == other,
        plays(.informsTheTransferor, call)
      {
        tell(call, transfer.by, .signal(signal))
      }
      passOn(call, signal, to: other)
    case .ended: break
    }
    return .done
  }

  private func passOn(_ call: Call, _ signal: Signal, to party: Party) {
    if plays(.losesSignals, call) { return }
    if plays(.reordersSignals, call) {
      // Its index follows the wrong order too, since clients recognise retransmissions by the
      // index.
      return later(.milliseconds(60)) { [self] in tellAgain(call, party, signal) }
    }
    tell(call, party, .signal(signal))
    if plays(.doublesSignals, call) { tellAgain(call, party, signal) }
  }

  private func tellAgain(_ call: Call, _ party: Party, _ signal: Signal) {
    call.signalCount += 1
    tell(
      call, party,
      .signal(Signal(index: call.signalCount, kind: signal.kind, body: signal.body)))
  }
}
