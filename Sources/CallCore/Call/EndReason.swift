/// Why a call, or one leg of it, ended. Raw values are those of the wire.
public enum EndReason: UInt8, Sendable, CaseIterable {
  /// Another of the user's devices won.
  case answeredElsewhere = 1
  /// A device declined for the user.
  case declined = 2
  /// The caller gave up before an answer.
  case cancelled = 3
  /// The ring timeout passed.
  case unanswered = 4
  /// Every leg was busy, or the user takes no second call.
  case busy = 5
  /// No device could be reached.
  case unreachable = 6
  /// Either side ended an answered call.
  case hungUp = 7
  /// Answered but never connected, or both sides vanished.
  case failed = 8
  /// It gave way to a crossing call, which goes on.
  case glare = 9
  /// Another of the user's devices took the answered call over. Only devices have this reason, never calls.
  case moved = 10
  /// A device handed its side of the answered call over to another user. A call has this reason only if it was placed
  /// to consult that user first.
  case transferred = 11

  /// The reason's name on the wire (JSON) and in logs.
  public var name: String { "\(self)" }

  /// Whether a call can end for this reason. If not, only a device's part in it can.
  public var endsCalls: Bool { self != .answeredElsewhere && self != .moved }

  /// Whether a call that ended for this reason is a missed call of the callee.
  ///
  /// Unreachable counts as missed, too, because nothing informed the user of the call.
  public var isMissedCall: Bool {
    switch self {
    case .cancelled, .unanswered, .busy, .unreachable: true
    case .answeredElsewhere, .declined, .hungUp, .failed, .glare, .moved, .transferred: false
    }
  }
}

/// Why a call ended as unreachable. Raw values are those of the wire and of the journal.
public enum UnreachableCause: UInt8, Sendable, CaseIterable {
  /// The cluster knows no device of the user. There is no such user, or it has signed in nowhere.
  case noDevice = 1
  /// The user has devices. None is attached, and none can be made to ring by a push.
  case notWakeable = 2
  /// Devices rang or were being woken. Their sessions were lost, or their pushes failed.
  case lost = 3
}

/// Where a call stands. Raw values are those of the wire.
public enum CallPhase: UInt8, Sendable, CaseIterable {
  /// Never existed, or forgotten.
  case unknown = 0
  /// Accepted; no device has said that it alerts its user.
  case placed = 1
  /// At least one device alerts its user.
  case ringing = 2
  case answered = 3
  case ended = 4

  public var name: String { "\(self)" }
}
