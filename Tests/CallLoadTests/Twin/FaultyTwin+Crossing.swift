import CallCore

/// Users who call each other: the call with the lower id goes on.
extension FaultyTwin {
  func cross(_ call: Call) {
    let other = calls.values.first {
      if case .ringing = $0.stage {
        $0.caller.user == call.callee && $0.callee == call.caller.user
      } else {
        false
      }
    }
    guard let other, other !== call else { return }
    let isFirst = (call.id.high, call.id.low) < (other.id.high, other.id.low)
    let (survivor, loser) = isFirst ? (call, other) : (other, call)
    later(.milliseconds(3)) { [self] in
      guard case .ringing = survivor.stage, case .ringing = loser.stage else { return }
      if plays(.connectsBothThatCross, loser) {
        connect(loser, survivor.caller)
      } else {
        giveWay(loser, to: survivor)
      }
      connect(survivor, loser.caller)
    }
  }

  private func giveWay(_ call: Call, to survivor: Call) {
    let by = survivor.caller
    call.stage = .ended(.glare, by: by)
    call.survivor = survivor.id
    tell(call, call.caller, .stop(Stop(reason: .glare, by: by, survivor: survivor.id)))
    for leg in call.legs.indices where call.legs[leg].isLive {
      let party = call.legs[leg].party
      call.legs[leg].isLive = false
      let stop =
        party == by
        ? Stop(reason: .glare, by: by, survivor: survivor.id)
        : Stop(reason: .answeredElsewhere, by: by)
      tell(call, party, .stop(stop))
    }
  }

  private func connect(_ call: Call, _ party: Party) {
    guard let leg = leg(call, party) else { return }
    win(call, leg)
    tell(call, party, .answered(Answered(by: party)))
  }
}
