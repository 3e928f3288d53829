internal import CallCore
internal import CallWire

/// Cancels calls whose `place` was given up without a conclusive reply.
extension ClientMachine {
  /// How long the cancel is retransmitted: the longest ring timeout of a cluster's default
  /// configuration.
  static let withdrawalTime: Span = .seconds(180)

  /// Cancels a call whose `place` was given up although an attempt may have taken effect: a message
  /// that was delayed by an outage may place the call long after its caller gave up.
  mutating func withdraw(_ entry: Pending, _ turn: inout Turn) {
    guard entry.isDoubtful, case .place(let address, _) = entry.command, !isPlacing(address.call)
    else { return }
    if calls[address.call]?.phase == .unknown { calls[address.call]?.left(.failed) }
    // A call that is known to be placed is the app's to end.
    guard calls[address.call]?.isEnded ?? true else { return }
    end(.call(address, .cancel), &turn)
    remember(address.call)
  }

  /// The cancel of a call that was given up came too late: hangs up on whoever answered.
  mutating func hangUpWithdrawn(_ entry: Pending, _ reply: ServerReply, _ turn: inout Turn) {
    guard entry.until != nil, case .call(let address, .cancel) = entry.command,
      case .call(let state) = reply, state.phase == .answered
    else { return }
    end(.call(address, .hangUp), &turn)
  }

  private mutating func end(_ command: ClientCommand, _ turn: inout Turn) {
    guard let request = enqueue(command, &turn),
      let index = pending.lastIndex(where: { $0.id == request })
    else { return }
    pending[index].until = turn.now + Self.withdrawalTime
  }

  /// Whether an unanswered command has another attempt left.
  func mayRetransmit(_ entry: Pending, now: Timestamp) -> Bool {
    if let until = entry.until { return now < until }
    return entry.attempts < configuration.commandAttempts
  }
}
