public import CallmeshClient

// Actions of the user in the system's screens.
extension CallKitMachine {
  /// - Parameter handle: whom the user calls.
  public mutating func start(_ id: CallID, handle: String, video: Bool) -> [Action] {
    guard calls[id] == nil else { return [.fail(id, .start)] }
    calls[id] = .dialling
    return [.place(id, callee: handle, video: video), .fulfill(id, .start)]
  }

  /// The call could not even be begun.
  public mutating func startFailed(_ id: CallID) -> [Action] {
    guard calls.removeValue(forKey: id) != nil else { return [] }
    return [.reportEnded(id, .failed)]
  }

  /// - Returns: for a call that does not ring yet nothing: it is answered as soon as it does.
  public mutating func answer(_ id: CallID) -> [Action] {
    switch calls[id] {
    case .waking:
      calls[id] = .answering(isSent: false)
      return [.wake(Address(call: id), isWanted: true)]
    case .ringing:
      calls[id] = .answering(isSent: true)
      return [.answer(id)]
    // Asked for by `requestAnswer` for a call that this device has already.
    case .talking: return [.fulfill(id, .answer)]
    case .answering, .dialling, nil: return [.fail(id, .answer)]
    }
  }

  public mutating func end(_ id: CallID) -> [Action] {
    let stage = calls.removeValue(forKey: id)
    note(id, .remoteEnded, isLeft: stage != nil || isLeft(id))
    switch stage {
    case .waking, .ringing: return [.decline(id), .fulfill(id, .end)]
    case .answering: return [.fail(id, .answer), .finish(id), .fulfill(id, .end)]
    case .dialling, .talking: return [.finish(id), .fulfill(id, .end)]
    // It is over already: what the user wants is so.
    case nil: return [.fulfill(id, .end)]
    }
  }

  public func hold(_ id: CallID, _ isOnHold: Bool) -> [Action] {
    calls[id] == .talking ? [.hold(id, isOnHold), .fulfill(id, .hold)] : [.fail(id, .hold)]
  }

  public func mute(_ id: CallID, _ isMuted: Bool) -> [Action] {
    calls[id] == nil ? [.fail(id, .mute)] : [.mute(id, isMuted), .fulfill(id, .mute)]
  }

  /// The system waits for an action no longer, and shows the call as failed.
  public mutating func timedOut(_ id: CallID, _ action: UserAction) -> [Action] {
    switch action {
    case .hold, .mute, .end: return []
    case .start, .answer:
      guard calls.removeValue(forKey: id) != nil else { return [] }
      note(id, .failed, isLeft: true)
      return [.finish(id), .reportEnded(id, .failed)]
    }
  }

  /// The system has forgotten all calls and pending actions.
  public mutating func reset() -> [Action] {
    let known = calls.keys.sorted { $0.description < $1.description }
    calls = [:]
    for id in known { note(id, .failed, isLeft: true) }
    return [.audio(isActive: false)] + known.map { .finish($0) }
  }

  public func audioChanged(isActive: Bool) -> [Action] { [.audio(isActive: isActive)] }
}
