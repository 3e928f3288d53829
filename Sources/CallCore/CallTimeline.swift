/// What happened in a call, small enough to be kept for every call: "why did my phone not ring".
struct CallTimeline: Sendable {
  enum What: UInt8, Sendable {
    case placed, joined, invited, repeated, acknowledged, alerting, answered, declined
    case declinedHere, busy, left, sessionLost, attached, connected, stopped, ended, hungUp
    case cancelled, takenOver

    var name: String {
      switch self {
      case .placed: "placed"
      case .joined: "joined"
      case .invited: "delivered"
      case .repeated: "repeated"
      case .acknowledged: "acknowledged"
      case .alerting: "alerting"
      case .answered: "answered"
      case .declined: "declined"
      case .declinedHere: "declined here"
      case .busy: "busy"
      case .left: "left"
      case .sessionLost: "session lost"
      case .attached: "attached"
      case .connected: "connected"
      case .stopped: "stopped"
      case .ended: "ended"
      case .hungUp: "hung up"
      case .cancelled: "cancelled"
      case .takenOver: "shard taken over"
      }
    }
  }

  /// Whose event it was: the index of a leg, the caller, or the call's.
  static let caller: UInt8 = 254
  static let call: UInt8 = 255
  static let limit = 96

  struct Event: Sendable {
    var offsetMicroseconds: UInt32
    var who: UInt8
    var what: What
  }
  private(set) var events: [Event] = []
  let start: Timestamp

  init(start: Timestamp) { self.start = start }

  mutating func note(_ what: What, _ who: UInt8, at now: Timestamp) {
    guard events.count < Self.limit else { return }
    let offset = UInt32(clamping: (now - start).microseconds)
    events.append(Event(offsetMicroseconds: offset, who: who, what: what))
  }

  func time(_ event: Event) -> Timestamp {
    start + Span(microseconds: Int64(event.offsetMicroseconds))
  }
}
