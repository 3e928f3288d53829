public import CallCore

/// What a device that a push woke is told when it attaches for that call.
public enum WakeAnswer: Sendable, Equatable {
  /// It still rings: the invite follows.
  case rings(until: Timestamp?)
  /// This device has the call: it answered, and comes back.
  case answeredHere
  case answeredElsewhere(by: Party?)
  /// A device declined for the user, or this one for itself.
  case declined(by: Party?)
  case cancelled(by: Party?)
  case unanswered
  /// The call never was, is not this user's, or ended too long ago to know why.
  case unknown
  /// It ended in another way.
  case ended(EndReason, by: Party?)
}

extension CallState {
  /// This state as the answer to a device that was woken for the call.
  public var wakeAnswer: WakeAnswer {
    switch phase {
    case .unknown: .unknown
    case .placed, .ringing: .rings(until: deadline)
    case .answered: .answeredHere
    case .ended:
      switch reason {
      case .answeredElsewhere: .answeredElsewhere(by: by)
      case .declined: .declined(by: by)
      case .cancelled: .cancelled(by: by)
      case .unanswered: .unanswered
      case .busy, .unreachable, .hungUp, .failed, .glare: .ended(reason ?? .failed, by: by)
      case nil: .unknown
      }
    }
  }
}
