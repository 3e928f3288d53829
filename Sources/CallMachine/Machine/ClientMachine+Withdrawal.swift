internal import CallCore
internal import CallWire

// Calls that are given up before anybody said whether they were placed.
extension ClientMachine {
  /// Cancels a call whose `place` was given up although an attempt may have taken effect: a message
  /// that was delayed by an outage may place the call long after its caller gave up.
  mutating func withdraw(_ entry: Pending, _ turn: inout Turn) {
    guard entry.isDoubtful, case .place(let address, _) = entry.command else { return }
    if let repetition = pending.firstIndex(where: { $0.places(address.call) }) {
      // The doubt passes to the repetition, and counts when that is given up.
      pending[repetition].isDoubtful = true
      return
    }
    if calls[address.call]?.phase == .unknown { calls[address.call]?.left(.failed) }
    // A call that is known to be placed is the app's to end.
    guard calls[address.call]?.isEnded ?? true else { return }
    enqueue(.call(address, .cancel), &turn)
    remember(address.call)
  }

  /// A command that ends this device's part was given up: the call is over here, and must not go on in the cluster because
  /// the device is back.
  mutating func leave(by command: ClientCommand) {
    guard let reason = command.endsOwnPart, let address = command.address else { return }
    for index in pending.indices where pending[index].command == .call(address, .resume) {
      pending[index].until = pending[index].nextAt
    }
    guard calls[address.call]?.isEnded == false else { return }
    calls[address.call]?.left(reason)
    remember(address.call)
  }

  /// The cancel of a call that was given up came too late: hangs up on the device that answered.
  mutating func hangUpWithdrawn(_ entry: Pending, _ reply: ServerReply, _ turn: inout Turn) {
    guard case .call(let address, .cancel) = entry.command, case .call(let state) = reply,
      state.phase == .answered, calls[address.call]?.isEnded ?? true
    else { return }
    enqueue(.call(address, .hangUp), &turn)
  }

  /// Without a connection: when the first command is given up.
  var expiry: Timestamp { pending.reduce(.distantFuture) { min($0, $1.expiresAt) } }

  /// Gives up the commands that found no connection, or lost theirs, for so long.
  mutating func expireCommands(_ turn: inout Turn) {
    guard expiry <= turn.now else { return }
    for id in pending.filter({ $0.expiresAt <= turn.now }).map(\.id) {
      guard let entry = pending.first(where: { $0.id == id }),
        let call = entry.command.address?.call
      else { continue }
      if entry.places(call), entry.isUnsent, calls[call]?.phase == .unknown {
        // The cluster does not have the call.
        giveUpCommands(of: call, &turn)
        calls[call]?.left(.failed)
        remember(call)
      } else {
        expire(entry, of: call, &turn)
      }
    }
  }

  private mutating func expire(_ entry: Pending, of call: CallID, _ turn: inout Turn) {
    var entry = entry
    if entry.attempts > 0, !entry.isRefused { entry.isDoubtful = true }
    pending.removeAll { $0.id == entry.id }
    turn.actions.append(.event(.gaveUp(request: entry.id, entry.command)))
    withdraw(entry, &turn)
    guard entry.places(call), !isPlacing(call), calls[call]?.phase == .unknown else { return }
    calls[call]?.left(.failed)
  }

  /// Whether an unanswered command has another attempt left.
  func mayRetransmit(_ entry: Pending, now: Timestamp) -> Bool {
    if let until = entry.until { return now < until }
    return entry.attempts < configuration.commandAttempts && now < entry.expiresAt
  }
}

extension ClientCommand {
  /// Whether it makes a device ring, which must not happen a minute late.
  var expires: Bool {
    switch self {
    case .place, .call(_, .transfer): true
    default: false
    }
  }
}
