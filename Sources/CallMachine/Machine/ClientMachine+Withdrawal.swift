internal import CallCore
internal import CallWire

// Calls that are given up before anybody said whether they were placed.
extension ClientMachine {
  /// Cancels a call whose `place` was given up although an attempt may have taken effect: a message
  /// that was delayed by an outage may place the call long after its caller gave up.
  mutating func withdraw(_ entry: Pending, _ turn: inout Turn) {
    guard entry.isDoubtful, case .place(let address, _) = entry.command, !isPlacing(address.call)
    else { return }
    if calls[address.call]?.phase == .unknown { calls[address.call]?.left(.failed) }
    // A call that is known to be placed is the app's to end.
    guard calls[address.call]?.isEnded ?? true else { return }
    enqueue(.call(address, .cancel), &turn)
    remember(address.call)
  }

  /// The cancel of a call that was given up came too late: hangs up on whoever answered.
  mutating func hangUpWithdrawn(_ entry: Pending, _ reply: ServerReply, _ turn: inout Turn) {
    guard case .call(let address, .cancel) = entry.command, case .call(let state) = reply,
      state.phase == .answered, calls[address.call]?.isEnded ?? true
    else { return }
    enqueue(.call(address, .hangUp), &turn)
  }

  /// When the first `place` is given up that has never been sent.
  var placeDeadline: Timestamp {
    pending.reduce(.distantFuture) { min($0, $1.isUnsent ? $1.unsentUntil : .distantFuture) }
  }

  /// Gives up the calls that found no connection in time. Nobody needs to know of them.
  mutating func expirePlaces(_ turn: inout Turn) {
    guard placeDeadline <= turn.now else { return }
    for entry in pending where entry.isUnsent && entry.unsentUntil <= turn.now {
      guard let call = entry.command.address?.call else { continue }
      giveUpCommands(of: call, &turn)
      calls[call]?.left(.failed)
      remember(call)
    }
  }

  /// Whether an unanswered command has another attempt left.
  func mayRetransmit(_ entry: Pending, now: Timestamp) -> Bool {
    if let until = entry.until { return now < until }
    return entry.attempts < configuration.commandAttempts
  }
}
