/// The push that makes a leg's device ring: at most one in a call.
package enum RingPush: Sendable, Equatable {
  /// The device has no token by which a push makes it ring. Can become: idle, decided.
  case impossible
  /// A push can make it ring, and none is due. Can become: due, decided, impossible.
  case idle
  /// Due at that time, unless the device acknowledges an invite first. Can become: idle, decided, impossible.
  case due(at: Timestamp)
  /// The push is a fact in the journal, and no second one follows.
  /// `isReported`: a gateway reported the result. A new owner does not have that report.
  case decided(Waking, isReported: Bool)

  /// The effect of a decided push on its device.
  package enum Waking: Sendable, Equatable {
    /// The device rings by it, or is about to: it has not attached since, and no failure is known.
    case underWay
    /// The push failed, and may have arrived all the same: the device may ring.
    case uncertain
    /// The device attached or acknowledged since, or the push did not arrive, or the device left.
    case over
  }

  package var isDecided: Bool {
    if case .decided = self { true } else { false }
  }

  /// Whether it was decided and a gateway reported the result.
  package var isReported: Bool {
    if case .decided(_, isReported: true) = self { true } else { false }
  }

  /// Whether the device is expected because of it.
  package var isWaking: Bool {
    if case .decided(.underWay, _) = self { true } else { false }
  }

  /// Whether the device may ring because of it, and learns of the end by a push only.
  package var mayRing: Bool {
    switch self {
    case .decided(.underWay, _), .decided(.uncertain, _): true
    case .impossible, .idle, .due, .decided(.over, _): false
    }
  }

  /// When it is due; `distantFuture`: none is.
  package var dueAt: Timestamp {
    if case .due(let at) = self { at } else { .distantFuture }
  }

  // MARK: Before it is decided

  /// The device has a token by which a push makes it ring.
  package mutating func becamePossible() {
    if case .impossible = self { self = .idle }
  }

  /// The device no longer has such a token. A push that was decided is given up.
  package mutating func becameImpossible() {
    switch self {
    case .impossible, .idle, .due: self = .impossible
    case .decided: giveUp()
    }
  }

  /// - Returns: whether it is due then; false where it is impossible or was decided.
  package mutating func schedule(at time: Timestamp) -> Bool {
    switch self {
    case .impossible, .decided: return false
    case .idle, .due:
      self = .due(at: time)
      return true
    }
  }

  /// It is no longer due, for example because the device acknowledged an invite.
  package mutating func unschedule() {
    if case .due = self { self = .idle }
  }

  // MARK: Once it is decided

  package mutating func decide() { self = .decided(.underWay, isReported: isReported) }

  /// The device has attached, or answers on its socket.
  package mutating func deviceIsAwake() {
    unschedule()
    if case .decided(_, let isReported) = self { self = .decided(.over, isReported: isReported) }
  }

  /// The device declined, was busy or left. If a push may have arrived, the device still needs a clean-up.
  package mutating func legEnded() {
    unschedule()
    giveUp()
  }

  /// The call no longer waits for the device.
  package mutating func giveUp() {
    if case .decided(.underWay, let isReported) = self {
      self = .decided(.over, isReported: isReported)
    }
  }

  /// A gateway's report. It may be repeated, and may come after the device attached.
  package mutating func report(_ outcome: PushOutcome) {
    guard case .decided(let waking, _) = self else { return }
    switch outcome {
    case .accepted, .acceptedIn: self = .decided(waking, isReported: true)
    case .failed(_, mayHaveArrived: true) where waking == .underWay:
      self = .decided(.uncertain, isReported: true)
    case .failed, .tokenGone, .tokenRefused, .rejected, .expired:
      self = .decided(waking == .underWay ? .over : waking, isReported: true)
    }
  }

  /// A new owner of the shard learns from the journal only whether it was decided.
  /// - Parameters:
  ///   - isPossible: the device has a token by which a push makes it ring.
  ///   - isAwaited: the leg may still answer, and its device has a token and no session.
  package mutating func takenOver(isPossible: Bool, isAwaited: Bool) {
    guard case .decided(let waking, let isReported) = self else {
      self = isPossible ? .idle : .impossible
      return
    }
    if isAwaited {
      self = .decided(.underWay, isReported: isReported)
    } else if waking == .underWay {
      self = .decided(.over, isReported: isReported)
    }
  }
}
