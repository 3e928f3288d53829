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
  /// The device was between two sessions when it was called: until when it is waited for.
  var awaitedUntil: Timestamp?
  /// Whether an invite was ever sent: only then is there something to stop.
  var told = false
  /// What it sent before anybody answered, in order; handed to the caller if it wins.
  var signals: [Signal] = []
  /// How many it ever sent.
  var signalCount: UInt64 = 0
  var signalMemory = SignalMemory()

  init(party: Party, session: SessionRef?) {
    self.party = party
    self.endpoint = Endpoint(session: session)
  }
}
