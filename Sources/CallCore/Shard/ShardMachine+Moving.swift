/// Answered calls that a device takes over from another one of its user.
extension ShardMachine {
  mutating func pull(
    _ command: Command, _ id: CallID, _ request: PullRequest, _ turn: inout Turn
  ) {
    guard let slot = calls.slot(of: id),
      command.user == calls[slot].callerKey
        || command.user.app == calls[slot].facts.callee.app
          && calls[slot].isParty(command.user.user)
    else { return turn.reply(command, .error(CallError(.unknownCall))) }
    if room == .scarce {
      let error = CallError(.overloaded, retryAfterMilliseconds: 1000)
      return turn.reply(command, .error(error))
    }
    guard mayMove else { return turn.reply(command, .error(Self.notYet)) }
    let party = Party(
      user: command.user.user, device: command.device, deviceName: request.deviceName)
    // The callee's device may have begun another session since it sent this.
    var present = command
    if command.user == command.callee, let device = users[command.user]?.device(command.device),
      let session = device.session
    {
      (present.session, present.attachedAt) = (session, device.attachedAt)
    }
    forgetPlacer(of: id)
    mutate(id) { call in
      let reply = call.pull(request, by: party, present, &turn)
      turn.reply(command, reply)
    }
    notePlacer(of: id)
  }

  private static let notYet = CallError(
    .unknownCommand, "No call is taken over while a node of an earlier version is there.")

  // MARK: Live calls by the device that has the caller's side

  private func liveSlot(of id: CallID) -> Int? {
    calls.slot(of: id).flatMap { calls[$0].isEnded ? nil : $0 }
  }

  mutating func forgetPlacer(of id: CallID) {
    if let slot = liveSlot(of: id) { placedCalls.remove(id, by: calls[slot].callerKey) }
  }

  mutating func notePlacer(of id: CallID) {
    if let slot = liveSlot(of: id) { placedCalls.add(calls[slot]) }
  }
}
