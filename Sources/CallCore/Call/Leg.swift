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
    /// It had the call until another device of the user took it over.
    case moved(at: Timestamp)
    /// It declined: for itself at this time, or for the user, which ended the call (nil).
    case declined(at: Timestamp?)
    case busy(at: Timestamp)
    /// It left, and nothing can wake it.
    case gone(at: Timestamp)
    /// The call ended, or another device won, while this one rang.
    case stopped
    /// The call left its user while this one rang, or the transfer for which it rang is over.
    case diverted(at: Timestamp)

    /// Whether it may still answer.
    var isLive: Bool {
      switch self {
      case .waking, .delivered, .alerting: true
      case .won, .moved, .declined, .busy, .gone, .stopped, .diverted: false
      }
    }

    /// Whether its device may believe that it rings. A device that left while it rang learns only later what happened.
    var mayStillRing: Bool {
      if case .gone = self { true } else { isLive }
    }

    /// The reason for which its device refused the call, and when; nil: it did not refuse. A decline for the user has
    /// no time.
    var refusal: (reason: EndReason, at: Timestamp?)? {
      switch self {
      case .declined(let at): (.declined, at)
      case .busy(let at): (.busy, at)
      case .waking, .delivered, .alerting, .won, .moved, .gone, .stopped, .diverted: nil
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
      case .moved: "moved"
      case .declined: "declined"
      case .busy: "busy"
      case .gone: "gone"
      case .stopped: "stopped"
      case .diverted: "diverted"
      }
    }
  }

  /// The invites that were sent. Only a device that was invited or pushed has something to stop.
  enum Invitation: Sendable, Equatable {
    /// `awaitedUntil`: the device was between two sessions when it was called, and may be back by then.
    case notSent(awaitedUntil: Timestamp?)
    case sent
    /// More than one was sent.
    case resent
    /// Only a former owner of the shard sent one, so this owner does not know which candidates the device has.
    case sentByFormerOwner

    var wasSent: Bool {
      if case .notSent = self { false } else { true }
    }
  }

  var party: Party
  /// The name of the device in the call and its journal.
  let key: DeviceID
  /// The ringing of the call in which it rang last: 0 is the first one, n the n-th transfer.
  var round: UInt8 = 0
  /// Whether it took part in the call before this ringing.
  var hadPart = false
  var state = State.waking
  var endpoint = Endpoint()
  var invitation = Invitation.notSent(awaitedUntil: nil)
  var ringPush = RingPush.impossible
  /// Pushes that were decided after the ringing: clean-ups and notices.
  var laterPushes: Set<PushPurpose> = []
  /// The signals that it sent. They wait until a device answers; the caller gets them if this leg wins.
  var signals = SentSignals()

  init(party: Party, key: DeviceID) {
    self.party = party
    self.key = key
  }

  /// Whether its device can be reached now, or is being woken.
  var isReachable: Bool {
    endpoint.session != nil || ringPush.isWaking || ringPush.dueAt != .distantFuture
  }

  /// Resets the leg, because it rings again for a transfer.
  mutating func ringAgain(_ round: UInt8, named name: String) {
    self.round = round
    if !name.isEmpty { party.deviceName = name }
    state = .waking
    // So the next report of the device's session invites it, even if the session is the same as before.
    endpoint = Endpoint()
    invitation = .notSent(awaitedUntil: nil)
    ringPush = .impossible
    laterPushes = []
    signals.dropWaiting()
  }

  // MARK: Pushes

  /// The purposes of the pushes to its device.
  var pushPurposes: [PushPurpose] {
    (ringPush.isDecided ? [.ring] : []) + PushPurpose.allCases.filter(laterPushes.contains)
  }

  mutating func pushDecided(_ purpose: PushPurpose) {
    if purpose == .ring { ringPush.decide() } else { laterPushes.insert(purpose) }
  }
}
