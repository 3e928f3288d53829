public import CallCore
internal import CallWire

// A device that a push woke.
extension ClientMachine {
  /// A push spoke of a call to this user: connects at once, and asks what became of the call. It
  /// rings with the invite that follows, or the call is stopped: one of the two comes as an event,
  /// whatever state the device was in.
  public mutating func woken(for call: CallID, now: Timestamp, into actions: inout [Action]) {
    if let view = calls[call], view.phase != .unknown { return }
    if calls[call] == nil {
      calls[call] = CallView(call: call, callee: "", role: .callee, phase: .unknown)
    }
    switch state {
    case .stopped:
      wokenFor = call
      start(now: now, into: &actions)
    case .waiting:
      wokenFor = call
      reconnectNow(now: now, into: &actions)
    case .connecting, .attaching:
      wokenFor = call
    case .attached:
      submit(.query(CallAddress(call: call)), now: now, into: &actions)
    }
  }

  /// The cluster's answer came with the attach, or has to be asked for: the attach may have been
  /// said before the push came.
  mutating func wokenAttached(
    _ info: AttachedInfo, now: Timestamp, into actions: inout [Action]
  ) {
    guard let call = wokenFor else { return }
    wokenFor = nil
    guard let state = info.forCall, state.call == call else {
      submit(.query(CallAddress(call: call)), now: now, into: &actions)
      return
    }
    guard let index = calls.index(forKey: call) else { return }
    emit(call, calls.values[index].take(state), into: &actions)
    if calls.values[index].isEnded { remember(call) }
  }
}
