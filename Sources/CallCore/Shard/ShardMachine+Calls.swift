/// Commands about one call.
extension ShardMachine {
  mutating func handle(_ command: Command, _ id: CallID, _ verb: CallVerb, _ turn: inout Turn) {
    if case .query = verb {
      return turn.reply(command, .call(state(of: id, seenBy: command)))
    }
    if case .signal = verb, room == .scarce {
      let error = CallError(.overloaded, retryAfterMilliseconds: 1000)
      return turn.reply(command, .error(error))
    }
    guard let slot = calls.slot(of: id), case let look = calls[slot].look(at: command),
      look.isAddressed
    else { return turn.reply(command, .error(CallError(.unknownCall))) }
    if calls[slot].awaitsWinner {
      mutate(id, at: slot) { $0.noteContact(look.role, on: command.session, &turn) }
    }
    if case .pull(let request) = verb { return pull(command, id, request, &turn) }
    if case .transfer(let request) = verb { return transfer(command, id, request, &turn) }
    var role = look.role
    if look.mayJoin, verb.joins {
      let sender = users[command.user]?.device(command.device)
      if let sender, sender.session == command.session, sender.onlyPlaces {
        return turn.reply(command, .error(CallError(.notParty)))
      }
      role = join(command, id, &turn)
    }
    // A device that takes the caller's side of a call has placed it from now on.
    let changesPlacer = look.isCallerTransferring
    if changesPlacer { forgetPlacer(of: id) }
    var answer: Reply? = .error(CallError(.notParty))
    // Before a new owner begins nothing waits to be acknowledged, since nothing was delivered.
    let isServing = isServing
    mutate(id, at: slot) { call in
      answer = Self.carryOut(verb, command, &call, role, &turn)
      if isServing { call.settleIfAcknowledged(&turn) }
    }
    if changesPlacer { notePlacer(of: id) }
    if let answer { turn.reply(command, answer, verb.urgency) }
  }

  /// A device that a push woke may answer or decline before it has attached.
  mutating func join(
    _ command: Command, _ id: CallID, named name: String = "", _ turn: inout Turn
  ) -> Call.Role {
    var role = Call.Role.calleeDevice(user: command.user.user, command.device)
    let isCallees = calls.slot(of: id).map { calls[$0].facts.callee == command.user } ?? true
    let device = isCallees ? users[command.user]?.device(command.device) : nil
    let party = Party(
      user: command.user.user, device: command.device, deviceName: device?.name ?? name)
    mutate(id) { call in
      guard call.legs.count < turn.limits.legsPerCallLifetime else { return }
      call.commit(.legJoined(party), .urgent, &turn)
      if let leg = call.legIndex(party) {
        // Another user's session its shard will say.
        call.legs[leg].endpoint.session = device?.session
        role = .leg(leg)
      }
    }
    return role
  }

  /// The call as the sender of a command may see it.
  func state(of id: CallID, seenBy command: Command, attaching: Bool = false) -> CallState {
    guard let slot = calls.slot(of: id) else {
      return CallState(call: id, callee: command.callee.user, phase: .unknown)
    }
    return calls[slot].state(seenBy: command, attaching: attaching)
  }

  /// - Returns: nil where no reply is to be sent.
  private static func carryOut(
    _ verb: CallVerb, _ command: Command, _ call: inout Call, _ role: Call.Role, _ turn: inout Turn
  ) -> Reply? {
    switch (verb, role) {
    // A command shows a stranger as little as a query does: not even that the call exists.
    case (_, .stranger):
      return .error(CallError(command.user == call.callerKey ? .notParty : .unknownCall))
    case (.alerting, .leg(let leg)): return call.alerting(leg, &turn)
    case (.answer(let description), .leg(let leg)):
      return call.answer(leg, description: description, by: command, &turn)
    case (.decline(let scope), .leg(let leg)):
      return call.decline(leg, scope, on: command.session, &turn)
    case (.busy, .leg(let leg)):
      return call.busy(leg, on: command.session, &turn)
    // It could not join.
    case (.alerting, .calleeDevice(let user, let key))
    where call.isSearching && call.rings(user, key),
      (.answer, .calleeDevice(let user, let key))
    where call.isSearching && call.rings(user, key),
      (.decline, .calleeDevice(let user, let key))
    where call.isSearching && call.rings(user, key),
      (.busy, .calleeDevice(let user, let key))
    where call.isSearching && call.rings(user, key):
      return .error(turn.limits.tooManyDevices)
    case (.answer, .calleeDevice):
      return .answer(won: false, call.state(for: role))
    case (.alerting, .calleeDevice), (.decline, .calleeDevice), (.busy, .calleeDevice):
      return .call(call.state(for: role))
    case (.answer, .caller) where call.callerMayHaveRung:
      call.tookCallersSide(call.facts.caller, by: command, &turn)
      return .answer(won: !call.isEnded, call.state(for: role))
    case (.answer, .formerCaller): return .answer(won: false, call.state(for: role))
    // R7: too late, it changes nothing.
    case (.alerting, .caller) where call.callerMayHaveRung,
      (.decline, .caller) where call.callerMayHaveRung,
      (.busy, .caller) where call.callerMayHaveRung,
      (.alerting, .formerCaller), (.decline, .formerCaller), (.busy, .formerCaller):
      return .call(call.state(for: role))
    case (.alerting, _), (.answer, _), (.decline, _), (.busy, _):
      return .error(CallError(.notParty, "The caller's device cannot do this: cancel or hang up."))
    case (.cancel, .caller): return call.cancel(on: command.session, &turn)
    // Another device has taken the caller's side meanwhile.
    case (.cancel, .formerCaller): return .call(call.state(for: role))
    case (.cancel, .leg) where call.facts.isToOneself: return .call(call.state(for: role))
    case (.cancel, _): return .error(CallError(.notParty, "Only the caller's device can cancel."))
    case (.connected, _): return call.connected(role, &turn)
    case (.hangUp, _): return call.hangUp(role, on: command.session, &turn)
    case (.signal(let kind, let body), _):
      return call.signal(
        role, request: command.request, after: command.after, on: command.session, kind, body, &turn
      )
    case (.resume, .caller):
      call.callerAttached(by: command, &turn)
      return .call(call.state(for: .caller))
    case (.resume, .formerCaller(let index)):
      call.formerCallerAttached(index, by: command, &turn)
      return .call(call.state(for: role))
    case (.resume, _): return .call(call.state(for: role))
    case (.cancelTransfer, _):
      guard let party = call.party(of: role) else { return .error(CallError(.notParty)) }
      return call.cancelTransfer(
        number: command.request, by: role, party, on: command.session, &turn)
    case (.query, _), (.pull, _), (.transfer, _): return .call(call.state(for: role))
    }
  }
}

/// The properties of a call that a shard has to know before it carries out a command.
private struct CallLook {
  /// The command names the call's callee.
  let isAddressed: Bool
  let role: Call.Role
  /// The device has no leg, and may ring.
  let mayJoin: Bool
  let isCallerTransferring: Bool
}

extension Call {
  /// Mutating, although it changes nothing: else the call would be copied out of the table to be looked at.
  fileprivate mutating func look(at command: Command) -> CallLook {
    let role = role(of: command.user, command.device)
    var mayJoin = false
    if case .calleeDevice(let user, let key) = role { mayJoin = isSearching && rings(user, key) }
    return CallLook(
      isAddressed: facts.callee == command.callee, role: role, mayJoin: mayJoin,
      isCallerTransferring: isCallerTransferring)
  }

  fileprivate func state(seenBy command: Command, attaching: Bool) -> CallState {
    let role = role(of: command.user, command.device)
    guard case .stranger = role else { return state(for: role, attaching: attaching) }
    if command.user == facts.callee || command.user == callerKey { return state(for: .caller) }
    return CallState(call: id, callee: command.callee.user, phase: .unknown)
  }
}
