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
    if state == .attached {
      submit(.call(CallAddress(call: call), .query), now: now, into: &actions)
      // A phone that slept may have lost its connection without a word.
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

  /// Policy beyond so many: the oldest counts as over. No user has as many calls at once.
  private static let wokenMax = 16

  private mutating func noteWoken(_ call: CallID, into actions: inout [Action]) {
    guard !wokenFor.contains(call) else { return }
    wokenFor.append(call)
    guard wokenFor.count > Self.wokenMax else { return }
    let oldest = wokenFor.removeFirst()
    take(CallState(call: oldest, callee: "", phase: .unknown), into: &actions)
  }

  /// The cluster's answer came with the attach, or has to be asked for: the attach may have been
  /// said before the push came.
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
