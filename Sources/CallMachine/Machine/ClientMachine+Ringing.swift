package import CallCore
internal import CallWire

// A call must not ring for ever where the cluster cannot say that it is over.
extension ClientMachine {
  /// The cluster's time, as far as this device knows it; nil: it was never attached.
  package func clusterTime(at now: Timestamp) -> Timestamp? { clockOffset.map { now + $0 } }

  /// While the device has no session: when the first call that rings here has rung for too long.
  var ringDeadline: Timestamp {
    calls.values.reduce(.distantFuture) { min($0, localDeadline($1)) }
  }

  /// Ends the calls that rang past their deadline. While the device is attached, only the cluster ends them.
  mutating func stopRinging(_ turn: inout Turn) {
    guard ringDeadline <= turn.now else { return }
    for view in calls.values where localDeadline(view) <= turn.now {
      giveUpCommands(of: view.call, &turn)
      guard let index = calls.index(forKey: view.call) else { continue }
      emit(view.call, calls.values[index].rangOut(), &turn)
      remember(view.call)
    }
  }

  /// An answer of this device has won after all, although the call has rung out here: its user is gone.
  mutating func hangUpLateWin(_ view: CallView, _ turn: inout Turn) {
    guard view.role == .callee, view.endedLocally else { return }
    let isUnderWay = pending.contains {
      if case .call(let address, .hangUp) = $0.command { address.call == view.call } else { false }
    }
    if !isUnderWay { enqueue(.call(address(view.call), .hangUp), &turn) }
  }

  private func localDeadline(_ view: CallView) -> Timestamp {
    guard view.role == .callee, view.phase == .ringing, let deadline = view.deadline,
      let clockOffset, let grace = configuration.ringGrace
    else { return .distantFuture }
    // Both times are the edge's, and may be anything.
    let (last, isFar) = deadline.microseconds.addingReportingOverflow(grace.microseconds)
    let (here, isFarther) = last.subtractingReportingOverflow(clockOffset.microseconds)
    return isFar || isFarther ? .distantFuture : Timestamp(microseconds: here)
  }

  /// An answer that waits for a connection must not take a call that is over here.
  mutating func giveUpCommands(of call: CallID, _ turn: inout Turn) {
    for entry in pending where entry.command.address?.call == call {
      turn.actions.append(.event(.gaveUp(request: entry.id, entry.command)))
    }
    pending.removeAll { $0.command.address?.call == call }
  }
}
