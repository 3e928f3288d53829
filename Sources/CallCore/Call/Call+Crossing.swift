/// Crossing calls (R8): how a call gives way, and how the other one goes on. `Crossing` has the rules.
extension Call {
  /// Gives way to a crossing call.
  ///
  /// A call that was answered meanwhile does not: the other one has to. One that ended has nothing to give.
  /// - Parameter by: the callee's device that placed the other one.
  mutating func giveWay(to crossed: CrossedCall, by: Party, _ turn: inout Turn) {
    switch stage {
    case .ringing:
      let isOther = Crossing.survives(
        crossed.survivor, caller: facts.callee.user, over: id, caller: facts.caller.user)
      guard isOther || crossed.isSurvivorAnswered else { return }
      end(.glare, by: by, survivor: crossed.survivor, &turn)
      // Where the survivor was answered, the device needs no more than the end of its own call.
      if !crossed.isSurvivorAnswered { requestMerge(&turn) }
    case .answered where !crossed.isSurvivorAnswered:
      let reverse = CrossedCall(
        call: crossed.survivor, caller: facts.callee.user, survivor: id, by: facts.caller.device,
        isSurvivorAnswered: true)
      tellCallersShard(.crossed(reverse), since: turn.now, &turn)
    case .answered, .ended: break
    }
  }

  /// Asks the surviving call's shard, which is that of this call's caller, to connect the caller's device. A new owner
  /// asks again: an answer is not journalled, and asking twice does no harm.
  func requestMerge(_ turn: inout Turn) {
    guard case .ended(let ending) = stage, let survivor = ending.facts.survivor else { return }
    let request = MergeRequest(
      call: survivor, merged: id, caller: facts.callee.user, deviceName: facts.caller.deviceName)
    tellCallersShard(.merge(request), since: ending.facts.at, &turn)
  }

  private func tellCallersShard(
    _ body: Command.Body, since: Timestamp, _ turn: inout Turn
  ) {
    let until = since + turn.limits.mergeTimeout
    guard turn.now < until else { return }
    turn.perform(.tell(callerKey, facts.caller.device, body, until: until))
  }

  /// A device of the callee takes the call, because its own call to the caller gave way to this one. It counts as
  /// having answered.
  mutating func merge(_ leg: Int, merged: CallID, _ turn: inout Turn) {
    guard isRinging, legs[leg].state.isLive else { return }
    let lacksInvite = legs[leg].state == .waking
    if !lacksInvite { inviteAcknowledged(leg, &turn) }
    let answer = win(leg, description: "", merged: merged, &turn)
    legs[leg].ringPush.unschedule()
    if lacksInvite {
      legs[leg].endpoint.clear()
      deliverInvite(toWinner: leg, answer, &turn)
    }
    deliver(to: leg, .answered(Answered(by: answer.by)), &turn)
    if legs[leg].endpoint.session == nil {
      commit(.winnerLost(until: turn.now + turn.limits.resumeGraceAnswered), .urgent, &turn)
    }
  }

  /// The invite for a device that takes a call without having answered it: it may not have got one.
  mutating func deliverInvite(toWinner leg: Int, _ answer: AnsweredFacts, _ turn: inout Turn) {
    var invite = invite(of: leg)
    invite.deadline = max(invite.deadline, answer.connectDeadline)
    legs[leg].invitation = .sent
    deliver(to: leg, .invite(invite), &turn)
  }
}
