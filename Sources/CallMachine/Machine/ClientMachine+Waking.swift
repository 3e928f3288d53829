package import CallCore
internal import CallWire

// Devices that were woken by a push.
extension ClientMachine {
  /// A push announced a call to this user: connects at once. If this device does not know the call, it
  /// asks for its state, and exactly one of `invited` and `stopped` follows as an event, whatever state
  /// the device was in. A call that was over here may ring once more, for a transfer: its invite comes
  /// once the device is attached.
  /// - Parameter callee: the called user, from the push; empty: this user.
  package mutating func woken(for call: CallID, callee: String = "", _ turn: inout Turn) {
    let known = calls[call].flatMap { $0.phase == .unknown ? nil : $0 }
    if let known, !known.isEnded { return }
    if calls[call] == nil {
      calls[call] = CallView(call: call, callee: callee, role: .callee, phase: .unknown)
    }
    if state == .attached {
      if known == nil { query(call, &turn) }
      // A phone that slept may have lost its connection silently.
      ping(&turn)
      return
    }
    if known == nil { noteWoken(call, &turn) }
    // The push came, so there is a network.
    failures = 0
    switch state {
    case .stopped: start(&turn)
    case .waiting: reconnectNow(&turn)
    case .connecting, .attaching, .attached: break
    }
  }

  /// Policy at the limit: the oldest call counts as over. No user has this many calls at once.
  private static let wokenMax = 16

  private mutating func noteWoken(_ call: CallID, _ turn: inout Turn) {
    guard !wokenFor.contains(call) else { return }
    wokenFor.append(call)
    guard wokenFor.count > Self.wokenMax else { return }
    let oldest = wokenFor.removeFirst()
    apply(CallState(call: oldest, callee: "", phase: .unknown), &turn)
  }

  /// Takes the call's state from the attach's reply, or asks for it: the attach may have been sent
  /// before the push came.
  mutating func wokenAttached(_ info: AttachedInfo, _ turn: inout Turn) {
    let woken = wokenFor
    wokenFor.removeAll()
    for call in woken {
      noteCallee(of: call, calls[call]?.callee ?? "")
      if let state = info.forCall, state.call == call, isOfOwnShard(state) {
        apply(state, &turn)
      } else {
        query(call, &turn)
      }
    }
  }

  private mutating func query(_ call: CallID, _ turn: inout Turn) {
    enqueue(.call(CallAddress(callee: calls[call]?.callee ?? "", call: call), .query), &turn)
  }

  /// Only the callee's shard knows the state of a call that was diverted to this user.
  private mutating func isOfOwnShard(_ state: CallState) -> Bool {
    if state.phase != .unknown { noteCallee(of: state.call, state.callee) }
    return calls[state.call]?.callee.isEmpty ?? true
  }

  private mutating func apply(_ state: CallState, _ turn: inout Turn) {
    guard let index = calls.index(forKey: state.call) else { return }
    let events = calls.values[index].apply(state)
    let view = calls.values[index]
    emit(state.call, events, &turn)
    awaitInvite(after: view, events, now: turn.now)
    if view.isEnded { remember(state.call) }
  }
}
