package import CallCore
internal import CallWire

// Devices that were woken by a push.
extension ClientMachine {
  /// A push announced a call to this user: connects at once and asks for the call's state. Exactly
  /// one of `invited` and `stopped` follows as an event, whatever state the device was in.
  package mutating func woken(for call: CallID, now: Timestamp, into actions: inout [Action]) {
    if let view = calls[call], view.phase != .unknown { return }
    if calls[call] == nil {
      calls[call] = CallView(call: call, callee: "", role: .callee, phase: .unknown)
    }
    if state == .attached {
      submit(.call(CallAddress(call: call), .query), now: now, into: &actions)
      // A phone that slept may have lost its connection silently.
      ping(now: now, into: &actions)
      return
    }
    noteWoken(call, into: &actions)
    switch state {
    case .stopped: start(now: now, into: &actions)
    case .waiting: reconnectNow(now: now, into: &actions)
    case .connecting, .attaching, .attached: break
    }
  }

  /// Policy at the limit: the oldest call counts as over. No user has this many calls at once.
  private static let wokenMax = 16

  private mutating func noteWoken(_ call: CallID, into actions: inout [Action]) {
    guard !wokenFor.contains(call) else { return }
    wokenFor.append(call)
    guard wokenFor.count > Self.wokenMax else { return }
    let oldest = wokenFor.removeFirst()
    take(CallState(call: oldest, callee: "", phase: .unknown), into: &actions)
  }

  /// Takes the call's state from the attach's reply, or asks for it: the attach may have been sent
  /// before the push came.
  mutating func wokenAttached(
    _ info: AttachedInfo, now: Timestamp, into actions: inout [Action]
  ) {
    let woken = wokenFor
    wokenFor.removeAll()
    for call in woken {
      if let state = info.forCall, state.call == call {
        take(state, into: &actions)
      } else {
        submit(.call(CallAddress(call: call), .query), now: now, into: &actions)
      }
    }
  }

  private mutating func take(_ state: CallState, into actions: inout [Action]) {
    guard let index = calls.index(forKey: state.call) else { return }
    emit(state.call, calls.values[index].take(state), into: &actions)
    if calls.values[index].isEnded { remember(state.call) }
  }
}
