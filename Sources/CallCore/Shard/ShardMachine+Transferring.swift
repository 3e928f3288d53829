/// Answered calls that are handed over to other users.
extension ShardMachine {
  mutating func transfer(
    _ command: Command, _ id: CallID, _ request: TransferRequest, _ turn: inout Turn
  ) {
    guard let slot = calls.slot(of: id) else { return }
    let role = calls[slot].role(of: command.user, command.device)
    if case .stranger = role { return turn.reply(command, .error(CallError(.unknownCall))) }
    guard room == .enough else {
      let error = CallError(.overloaded, retryAfterMilliseconds: 1000)
      return turn.reply(command, .error(error))
    }
    guard mayTransfer else { return turn.reply(command, .error(Self.notYet)) }
    mutate(id) { call in
      let party = call.party(of: role) ?? Party(user: command.user.user, device: command.device)
      turn.reply(
        command,
        call.transfer(
          request, number: command.request, by: role, party, on: command.session, &turn))
    }
  }

  private static let notYet = CallError(
    .unknownCommand, "No call is transferred while a node of an earlier version is there.")

  /// Another call's shard reports that its transfer is done. This call was placed to ask about that, and ends.
  mutating func replaced(_ command: Command, _ request: ReplacedCall, _ turn: inout Turn) {
    guard let slot = calls.slot(of: request.call), calls[slot].facts.callee == command.callee else {
      return turn.reply(command, .error(CallError(.unknownCall)))
    }
    let user = UserKey(app: command.callee.app, user: request.user)
    let role = calls[slot].role(of: user, command.device)
    mutate(request.call) { $0.giveWay(to: request, by: role, &turn) }
    turn.reply(command, .done)
  }

  /// A new owner does not know whether other shards were asked.
  func requestReplacing(_ turn: inout Turn) {
    for slot in calls.slots where !calls[slot].transfers.isEmpty {
      calls[slot].requestReplacing(&turn)
    }
  }

  /// Whether a user is in an answered call with the one who transfers another call to it, as far as this shard can tell.
  func isConsulted(_ call: CallID, _ user: UserKey, by other: String) -> Bool {
    if let slot = calls.slot(of: call), calls[slot].facts.callee == user {
      return calls[slot].winner != nil && calls[slot].facts.caller.user.hasBytes(of: other)
    }
    return users[user]?.devices.contains { $0.talking?.has(call, with: other) == true } ?? false
  }
}

extension Talking {
  /// Whether a call is among them, and to that user. Where users do not see their calls, edges do not say to whom.
  fileprivate func has(_ call: CallID, with other: String) -> Bool {
    guard let index = calls.firstIndex(of: call) else { return false }
    return !details.indices.contains(index) || details[index].other.hasBytes(of: other)
  }
}

extension Call {
  /// The party that has a side; nil: the role has none.
  func party(of role: Role) -> Party? {
    switch role {
    case .caller: facts.caller
    case .leg(let leg): legs[leg].party
    case .formerCaller(let index): formerCallers[index].party
    case .calleeDevice, .stranger: nil
    }
  }

  /// The device that transfers another call has asked in this one. Only a device that has a side of it may end it so.
  fileprivate mutating func giveWay(
    to request: ReplacedCall, by role: Role, _ turn: inout Turn
  ) {
    guard case .answered(let conversation) = stage, let party = party(of: role) else { return }
    switch role {
    case .caller: break
    case .leg(let leg) where leg == conversation.winner: break
    default: return
    }
    end(.transferred, by: party, survivor: request.survivor, &turn)
  }
}
