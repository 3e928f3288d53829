import CallClient
import CallCore
import CallWire

/// A side of an answered call that is handed over to a third user, as the twin does it.
extension FaultyTwin {
  struct TransferState {
    let ofCaller: Bool
    let by: Party
    let to: String
    let at: Timestamp
    /// The call in which the third user was asked before.
    let consulted: CallID?
    var legs: [Leg] = []
    var taken: (by: Party, at: Timestamp)?
    var failure: (reason: EndReason, by: Party, at: Timestamp)?

    var isPending: Bool { taken == nil && failure == nil }

    func leg(_ party: Party) -> Int? { legs.firstIndex { $0.party == party } }
  }

  /// The devices that have the caller's and the callee's side.
  func sides(_ call: Call, _ winner: Int) -> (caller: Party, callee: Party) {
    let callee = call.legs[winner].party
    guard let transfer = call.transfer, let taker = transfer.taken?.by else {
      return (call.caller, callee)
    }
    return transfer.ofCaller ? (taker, callee) : (call.caller, taker)
  }

  func transfer(_ call: Call, _ party: Party, _ request: TransferRequest) -> ServerReply? {
    guard case .answered(let winner) = call.stage else { return .error(CallError(.wrongState)) }
    if call.transfer?.by == party { return .call(state(call, party)) }
    let sides = sides(call, winner)
    guard call.transfer == nil, sides.caller == party || sides.callee == party else {
      return .error(CallError(.notParty))
    }
    let ofCaller = sides.caller == party
    call.transfer = TransferState(
      ofCaller: ofCaller, by: party, to: request.to, at: loop.now,
      consulted: request.consulted?.call)
    let stays = ofCaller ? sides.callee : sides.caller
    var invite = Invite(caller: stays, deadline: loop.now + .seconds(30))
    invite.transferredBy = plays(.namesNoTransferor, call) ? nil : party
    let isAsked = request.device != nil
    invite.consulted =
      isAsked && plays(.namesNoConsultation, call) ? nil : request.consulted
    let ringsAll = isAsked && plays(.ringsAllThatWereNotAsked, call)
    let third = sessions.keys.filter {
      $0.user == request.to && (ringsAll || request.device ?? $0.device == $0.device)
    }
    for device in third.sorted(by: { $0.device.text < $1.device.text }) {
      call.transfer?.legs.append(Leg(party: device))
      tell(call, device, .invite(invite))
    }
    return .call(state(call, party))
  }

  // MARK: The third user's devices

  /// - Returns: nil: the device does not ring for a transfer.
  func ofTransfer(_ call: Call, _ party: Party, _ verb: CallVerb) -> ServerReply?? {
    guard let transfer = call.transfer, let leg = transfer.leg(party) else { return nil }
    switch verb {
    case .alerting:
      if transfer.isPending {
        tell(call, transfer.by, .transfer(TransferNews(to: transfer.to, number: 1, by: party)))
      }
      return .call(state(call, party))
    case .answer(let description): return take(call, transfer, leg, description)
    case .decline(.everywhere):
      declineTransfer(call, transfer, party)
      return .call(state(call, party))
    default: return nil
    }
  }

  private func take(
    _ call: Call, _ transfer: TransferState, _ leg: Int, _ description: String
  ) -> ServerReply {
    let party = transfer.legs[leg].party
    guard case .answered(let winner) = call.stage, transfer.isPending else {
      return .answer(won: transfer.taken?.by == party, state(call, party))
    }
    call.transfer?.taken = (party, loop.now)
    let stays = transfer.ofCaller ? call.legs[winner].party : call.caller
    if !plays(.forgetsTheTransferor, call) {
      tell(call, transfer.by, .stop(Stop(reason: .transferred, by: party)))
    }
    if !plays(.forgetsWhoStays, call) {
      tell(call, stays, .moved(Moved(to: party, description: description, number: 1)))
    }
    let forgets = plays(.ringsOnAfterATransfer, call)
    for other in transfer.legs where other.party != party && !forgets {
      tell(call, other.party, .stop(Stop(reason: .answeredElsewhere, by: party)))
    }
    endConsultation(of: call, transfer)
    return .answer(won: true, state(call, party))
  }

  /// The call in which the third user was asked has served its purpose.
  private func endConsultation(of call: Call, _ transfer: TransferState) {
    guard let consulted = transfer.consulted.flatMap({ calls[$0] }),
      case .answered(let winner) = consulted.stage, !plays(.keepsTheConsultation, consulted)
    else { return }
    let sides = sides(consulted, winner)
    consulted.stage = .ended(.transferred, by: transfer.by)
    consulted.survivor = call.id
    for side in [sides.caller, sides.callee] {
      tell(
        consulted, side, .stop(Stop(reason: .transferred, by: transfer.by, survivor: call.id)))
    }
  }

  private func declineTransfer(_ call: Call, _ transfer: TransferState, _ party: Party) {
    guard case .answered = call.stage, transfer.isPending else { return }
    call.transfer?.failure = (.declined, party, loop.now)
    for other in transfer.legs where other.party != party {
      tell(call, other.party, .stop(Stop(reason: .declined, by: party)))
    }
    let news = TransferNews(to: transfer.to, number: 1, reason: .declined, by: party)
    if !plays(.keepsADeclineToItself, call) { tell(call, transfer.by, .transfer(news)) }
  }

  /// The call ends while the third user rings.
  func cancelTransfer(_ call: Call, by party: Party) {
    guard let transfer = call.transfer, transfer.isPending else { return }
    call.transfer?.failure = (.cancelled, party, loop.now)
    for leg in transfer.legs {
      tell(call, leg.party, .stop(Stop(reason: .cancelled, by: party, missed: true)))
    }
  }

  // MARK: States

  /// Changes a device's view of the call by its transfer.
  func refine(_ state: inout CallState, _ call: Call, _ party: Party) {
    guard let transfer = call.transfer else { return }
    func ended(_ reason: EndReason, by: Party) {
      (state.phase, state.reason, state.by) = (.ended, reason, by)
    }
    if let taker = transfer.taken?.by {
      if party == transfer.by { return ended(.transferred, by: taker) }
      if transfer.leg(party) != nil, party != taker {
        return ended(.answeredElsewhere, by: taker)
      }
      if case .answered(let winner) = call.stage, party == taker {
        let winner = call.legs[winner].party
        (state.phase, state.reason) = (.answered, nil)
        state.by = transfer.ofCaller ? winner : taker
      }
    } else if transfer.leg(party) != nil {
      guard let failure = transfer.failure else {
        (state.phase, state.reason, state.by) = (.ringing, nil, nil)
        return
      }
      ended(failure.reason, by: failure.by)
    }
  }

  // MARK: Histories

  /// Changes a user's entry by the call's transfer.
  /// - Parameter entry: nil: the user was not in the call before.
  func refine(_ entry: HistoryEntry?, _ call: Call, _ user: String) -> HistoryEntry? {
    guard let transfer = call.transfer, case .ended(let reason, _) = call.stage else {
      return entry
    }
    if var entry {
      guard let taken = transfer.taken, transfer.by.user == user else { return entry }
      if playsInHistory(.keepsATransferFromHistory, call) { return entry }
      (entry.reason, entry.endedAt) = (.transferred, taken.at)
      return entry
    }
    guard transfer.to == user else { return nil }
    let stays = transfer.ofCaller ? call.callee : call.caller.user
    var third = HistoryEntry(
      call: call.id, callee: call.callee, isPlaced: false, peer: stays, device: nil,
      placedAt: transfer.at, answeredAt: nil, endedAt: call.deadline, reason: reason)
    third.divertedBy = transfer.by.user
    if let taken = transfer.taken {
      (third.device, third.answeredAt) = (taken.by.device, taken.at)
    } else if let failure = transfer.failure {
      (third.reason, third.endedAt) = (failure.reason, failure.at)
      third.isMissed = failure.reason.isMissedCall
    }
    return third
  }
}
