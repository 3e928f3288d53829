/// A device of the callee in one call.
struct Leg: Sendable {
  enum State: UInt8, Sendable {
    /// Told, or to be told, but nothing heard from it.
    case waking
    /// It acknowledged the invite.
    case delivered
    /// It alerts its user.
    case alerting
    case won
    /// It declined, for itself or for the user.
    case declined
    case busy
    /// It left, and nothing can wake it.
    case gone
    /// The call ended, or another won, while it rang.
    case stopped

    /// Whether it may still answer.
    var isLive: Bool {
      switch self {
      case .waking, .delivered, .alerting: true
      case .won, .declined, .busy, .gone, .stopped: false
      }
    }

    /// Whether its device may believe that it rings: it did when it left, and hears what became of
    /// the call when it comes back.
    var mayStillRing: Bool { isLive || self == .gone }

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

  var party: Party
  var state: State = .waking
  var endpoint: Endpoint
  /// When it declined for itself, was busy, or went; nil: it did nothing of that.
  var leftAt: Timestamp?
  /// The device was between two sessions when it was called: until when it is waited for.
  var awaitedUntil: Timestamp?
  /// Whether an invite was ever sent: only then is there something to stop, unless a push rang.
  var told = false
  /// Whether its last invite was not the first.
  var isInvitedAnew = false
  /// Whether only a former owner invited it: then nobody knows which candidates it has.
  var wasInvitedBefore = false
  /// Whether a push can make its device ring.
  var wakes = false
  /// A push made it ring, or is to: the device has not attached since, and no failure is known.
  var isBeingWoken = false
  /// The push that was to make it ring failed, and may have arrived all the same.
  var mayHaveBeenWoken = false
  /// What became of the push that was to make it ring is known.
  var isRingReported = false
  /// Pushes that were decided.
  var pushes = PushSet()
  /// When a push is due; `distantFuture`: none is.
  var pushAt = Timestamp.distantFuture
  /// What it sent before anybody answered, in order; handed to the caller if it wins.
  var signals: [Signal] = []
  /// How many it ever sent.
  var signalCount: UInt64 = 0
  var signalMemory = SignalMemory()

  init(party: Party, session: SessionRef?) {
    self.party = party
    self.endpoint = Endpoint(session: session)
  }

  /// Whether its device may ring because it was pushed, and hears of the end by a push only.
  var ringsByPush: Bool { isBeingWoken || mayHaveBeenWoken }

  /// Its device is there, and hears by its socket.
  mutating func isAwake() {
    isBeingWoken = false
    mayHaveBeenWoken = false
  }

  /// Whether its device can be told, or can be expected.
  var isReachable: Bool {
    endpoint.session != nil || isBeingWoken || pushAt != .distantFuture
  }
}

/// Purposes, as bits.
struct PushSet: Sendable, Equatable {
  private var bits: UInt8 = 0

  var isEmpty: Bool { bits == 0 }
  func contains(_ purpose: PushPurpose) -> Bool { bits & Self.bit(purpose) != 0 }
  mutating func insert(_ purpose: PushPurpose) { bits |= Self.bit(purpose) }

  var purposes: [PushPurpose] { PushPurpose.allCases.filter(contains) }

  /// The one that told its device of the end, if there was one.
  var cleanUp: PushPurpose? {
    PushPurpose.allCases.first { $0.isCleanUp && contains($0) }
  }

  private static func bit(_ purpose: PushPurpose) -> UInt8 { 1 << purpose.rawValue }
}
