/// How the facts of transfers change a call (`Call+Transferring` decides them).
extension Call {
  mutating func applyTransferring(_ start: DivertedFacts) -> Bool {
    guard case .answered(let conversation) = stage, !isTransferring, let by = start.by else {
      return false
    }
    let winner = legs[conversation.winner].party
    let ofCaller = facts.caller.isDevice(by.device, of: by.user)
    guard ofCaller || winner.isDevice(by.device, of: by.user) else { return false }
    transfers.append(
      Transfer(
        ofCaller: ofCaller, stays: ofCaller ? winner : facts.caller, movesBefore: moves.count,
        diversions: [start]))
    isPushWithdrawn = false
    expectGuests(of: start)
    // That of the first ringing, which was answered, may be later.
    facts.deadline = start.deadline
    timeline.note(
      .transferring, ofCaller ? CallTimeline.caller : UInt8(clamping: conversation.winner),
      at: start.at)
    return true
  }

  mutating func applyTransferEnded(
    _ end: TransferEnd, at now: Timestamp, epoch: UInt64
  ) -> Bool {
    guard let transfer else { return false }
    for leg in legs.indices where isInRound(leg) && legs[leg].state.mayStillRing {
      leave(leg, at: end.at)
    }
    transfers[transfers.count - 1].outcome = .failed(end)
    // Who cancels it knows. Where nobody has the side, the call ends with this.
    if end.reason != .cancelled, !(transfer.ofCaller && isCallerVacant) {
      let news = TransferNews(
        to: transfer.target, number: UInt32(transfers.count), reason: end.reason, by: end.by)
      keepNews(news, ofCaller: transfer.ofCaller, at: now, epoch: epoch)
    }
    timeline.note(.transferFailed, CallTimeline.call, at: end.at)
    return true
  }

  /// A device has taken the side: the others stop.
  mutating func endTransfer(by move: MovedFacts) {
    guard isTransferring else { return }
    let taker = legIndex(move.to)
    let rung = legs.indices.filter { isInRound($0) }
    for leg in rung where leg != taker && legs[leg].state.mayStillRing { leave(leg, at: move.at) }
    transfers[transfers.count - 1].outcome = .moved(moves.count - 1)
    guard let taker else { return }
    // The signals that it sent before it answered are facts of their own from then on.
    legs[taker].signals.dropWaiting()
    legs[taker].endpoint.clear()
  }

  /// A device rings for a transfer that may have had a part in the call before.
  mutating func ringAgain(_ leg: Int, _ party: Party) {
    legs[leg].ringAgain(UInt8(clamping: transfers.count), named: party.deviceName)
    formerCallers.removeAll { $0.party.isDevice(party.device, of: party.user) }
  }

  mutating func keepNews(
    _ news: TransferNews, ofCaller: Bool, at now: Timestamp, epoch: UInt64
  ) {
    let delivery = delivery(.transfer(news), at: now, epoch: epoch)
    if ofCaller {
      caller.replaceTransfer(by: delivery)
    } else if let winner {
      legs[winner].endpoint.replaceTransfer(by: delivery)
    }
  }

  mutating func sendKept(ofCaller: Bool, _ turn: inout Turn) {
    if ofCaller {
      caller.sendKept(&turn)
    } else if let winner {
      legs[winner].endpoint.sendKept(&turn)
    }
  }
}
