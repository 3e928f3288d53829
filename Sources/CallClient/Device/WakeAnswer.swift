public import CallCore

/// The state of a call for a device that a push woke and that attached for that call.
public enum WakeAnswer: Sendable, Equatable {
  /// It still rings until the given time, by the cluster's clock. The invite follows.
  case rings(until: Timestamp?)
  /// This device itself answered the call before.
  case answeredHere
  /// Another device of this user answered.
  case answeredElsewhere(by: Party?)
  /// A device declined for the user, or this one for itself.
  case declined(by: Party?)
  /// The caller cancelled.
  case cancelled(by: Party?)
  /// The ring timeout passed.
  case unanswered
  /// The call never existed, is not this user's, or ended too long ago to be remembered.
  case unknown
  /// It ended in another way.
  case ended(EndReason, by: Party?)
}

extension CallState {
  /// This state for a device that was woken for the call.
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
