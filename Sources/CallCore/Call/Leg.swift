/// A device of the callee in one call.
struct Leg: Sendable {
  enum State: Sendable, Equatable {
    /// It has not acknowledged an invite.
    case waking
    /// It acknowledged the invite.
    case delivered
    /// It alerts its user.
    case alerting
    case won
    /// It declined: for itself at this time, or for the user, which ended the call (nil).
    case declined(at: Timestamp?)
    case busy(at: Timestamp)
    /// It left, and nothing can wake it.
    case gone(at: Timestamp)
    /// The call ended, or another device won, while this one rang.
    case stopped

    /// Whether it may still answer.
    var isLive: Bool {
      switch self {
      case .waking, .delivered, .alerting: true
      case .won, .declined, .busy, .gone, .stopped: false
      }
    }

    /// Whether its device may believe that it rings: it did when it left, and learns what became of
    /// the call when it comes back.
    var mayStillRing: Bool {
      if case .gone = self { true } else { isLive }
    }

    /// What its device said by declining or being busy, and when; nil where it did neither. Who declined for
    /// the user has no time.
    var refusal: (reason: EndReason, at: Timestamp?)? {
      switch self {
      case .declined(let at): (.declined, at)
      case .busy(let at): (.busy, at)
      case .waking, .delivered, .alerting, .won, .gone, .stopped: nil
      }
    }

    var isDeclined: Bool {
      if case .declined = self { true } else { false }
    }

    /// The state's name for operators.
    var name: String {
      switch self {
      case .waking: "waking"
      case .delivered: "delivered"
      case .alerting: "alerting"
      case .won: "won"
      case .declined: "declined"
      case .busy: "busy"
      case .gone: "gone"
      case .stopped: "stopped"
      }
    }
  }

  /// Which invites were sent. Only a device that was invited, or pushed, has something to stop.
  enum Invitation: Sendable, Equatable {
    /// `awaitedUntil`: the device was between two sessions when it was called, and may be back by then.
    case notSent(awaitedUntil: Timestamp?)
    case sent
    /// The last one was not the first.
    case resent
    /// Only a former owner of the shard sent one, so nobody knows which candidates the device has.
    case sentByFormerOwner

    var wasSent: Bool {
      if case .notSent = self { false } else { true }
    }
  }

  var party: Party
  var state = State.waking
  var endpoint = Endpoint()
  var invitation = Invitation.notSent(awaitedUntil: nil)
  var ringPush = RingPush.impossible
  /// Pushes that were decided after the ringing: clean-ups and notices.
  var laterPushes = PushSet()
  /// What it sent. Until somebody answers it waits; the caller gets it if this leg wins.
  var signals = SentSignals()

  init(party: Party) { self.party = party }

  /// Whether its device can be reached now, or is being woken.
  var isReachable: Bool {
    endpoint.session != nil || ringPush.isWaking || ringPush.dueAt != .distantFuture
  }

  // MARK: Pushes

  /// What its device was pushed for.
  var pushPurposes: [PushPurpose] {
    (ringPush.isDecided ? [.ring] : []) + laterPushes.purposes
  }

  mutating func pushDecided(_ purpose: PushPurpose) {
    if purpose == .ring { ringPush.decide() } else { laterPushes.insert(purpose) }
  }
}

/// Purposes, as bits.
struct PushSet: Sendable, Equatable {
  private var bits: UInt8 = 0

  var isEmpty: Bool { bits == 0 }
  func contains(_ purpose: PushPurpose) -> Bool { bits & Self.bit(purpose) != 0 }
  mutating func insert(_ purpose: PushPurpose) { bits |= Self.bit(purpose) }

  var purposes: [PushPurpose] { PushPurpose.allCases.filter(contains) }

  /// The one that told the device of the end; nil: there was none.
  var cleanUp: PushPurpose? {
    PushPurpose.allCases.first { $0.isCleanUp && contains($0) }
  }

  private static func bit(_ purpose: PushPurpose) -> UInt8 { 1 << purpose.rawValue }
}
