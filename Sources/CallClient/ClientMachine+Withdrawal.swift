internal import CallCore
internal import CallWire

/// What becomes of a call that was given up before anybody said whether it was placed.
extension ClientMachine {
  /// For how long a cancel is retransmitted: the longest ring timeout, as a cluster has it by default.
  static let withdrawalTime: Span = .seconds(180)

  /// Cancels a call whose `place` was given up although an attempt may have been carried out: a message that
  /// waited somewhere during an outage may place the call long after its caller turned away.
  mutating func withdraw(_ entry: Pending, now: Timestamp, into actions: inout [Action]) {
    guard entry.isDoubtful, case .place(let address, _) = entry.command, !isPlacing(address.call)
    else { return }
    if calls[address.call]?.phase == .unknown { calls[address.call]?.left(.failed) }
    // What is known to be placed is the app's to end.
    guard calls[address.call]?.isEnded ?? true else { return }
    end(.call(address, .cancel), now: now, into: &actions)
    remember(address.call)
  }

  /// The cancel of a call that was given up came too late: somebody had answered, and would wait for nobody.
  mutating func hangUpWithdrawn(
    _ entry: Pending, _ reply: ServerReply, now: Timestamp, into actions: inout [Action]
  ) {
    guard entry.until != nil, case .call(let address, .cancel) = entry.command,
      case .call(let state) = reply, state.phase == .answered
    else { return }
    end(.call(address, .hangUp), now: now, into: &actions)
  }

  private mutating func end(
    _ command: ClientCommand, now: Timestamp, into actions: inout [Action]
  ) {
    guard let request = submit(command, now: now, into: &actions),
      let index = pending.lastIndex(where: { $0.id == request })
    else { return }
    pending[index].until = now + Self.withdrawalTime
  }

  /// Whether a command that has no answer yet is sent once more.
  func mayRetransmit(_ entry: Pending, now: Timestamp) -> Bool {
    if let until = entry.until { return now < until }
    return entry.attempts < configuration.commandAttempts
  }
}
