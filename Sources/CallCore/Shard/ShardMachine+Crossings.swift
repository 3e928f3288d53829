/// Crossing calls, of which each is in the shard of its callee.
extension ShardMachine {
  /// This shard's call gives way. An edge reports so where two calls cross, and the other one's shard where that one was
  /// answered.
  mutating func crossed(_ command: Command, _ crossed: CrossedCall, _ turn: inout Turn) {
    guard let slot = calls.slot(of: crossed.call), calls[slot].facts.callee == command.callee,
      calls[slot].facts.caller.user.hasBytes(of: crossed.caller), !calls[slot].isCallerVacant
    else { return turn.reply(command, .error(CallError(.unknownCall))) }
    let callee = calls[slot].facts.callee
    switch calls[slot].role(of: command.user, command.device) {
    case .formerCaller, .stranger:
      return turn.reply(command, .error(CallError(.unknownCall)))
    // A device of the callee speaks for its own call only.
    case .leg, .calleeDevice:
      guard command.device == crossed.by else {
        return turn.reply(command, .error(CallError(.notParty)))
      }
    case .caller: break
    }
    // The caller cannot name a device that the callee does not have.
    let device = users[callee]?.device(crossed.by)
    guard device != nil || crossed.isSurvivorAnswered else {
      return turn.reply(command, .error(CallError(.unknownDevice)))
    }
    let by = Party(user: callee.user, device: crossed.by, deviceName: device?.name ?? "")
    mutate(crossed.call) { $0.giveWay(to: crossed, by: by, &turn) }
    turn.reply(command, .done)
  }

  /// The shard of a call that gave way asks: its caller's device takes the call that goes on.
  mutating func merge(_ command: Command, _ request: MergeRequest, _ turn: inout Turn) {
    guard let slot = calls.slot(of: request.call), calls[slot].facts.callee == command.callee,
      calls[slot].facts.caller.user.hasBytes(of: request.caller), !calls[slot].isCallerVacant
    else { return turn.reply(command, .error(CallError(.unknownCall))) }
    if calls[slot].isRinging {
      var role = calls[slot].role(of: command.user, command.device)
      if case .calleeDevice = role {
        role = join(command, request.call, named: request.deviceName, &turn)
      }
      if case .leg(let leg) = role {
        mutate(request.call) { $0.merge(leg, merged: request.merged, &turn) }
      }
    }
    turn.reply(command, .done)
  }

  /// A new owner does not know whether the other shard was asked.
  func requestMerges(_ turn: inout Turn) {
    for slot in calls.slots where calls[slot].isEnded { calls[slot].requestMerge(&turn) }
  }
}
