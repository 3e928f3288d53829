/// What happened in a call, small enough to be kept for every call: "why did my phone not ring".
struct CallTimeline: Sendable {
  enum What: UInt8, Sendable {
    case placed, joined, invited, repeated, acknowledged, alerting, answered, declined
    case declinedHere, busy, left, sessionLost, attached, connected, stopped, ended, hungUp
    case cancelled, takenOver
    /// Each with a purpose.
    case pushed, pushAccepted, pushTokenGone, pushRejected, pushExpired, pushFailed

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
      case .pushed: "pushed"
      case .pushAccepted: "push accepted"
      case .pushTokenGone: "push token gone"
      case .pushRejected: "push rejected"
      case .pushExpired: "push expired"
      case .pushFailed: "push failed"
      }
    }
  }

  /// Whose event it was: the index of a leg, a device without one, the caller, or the call's.
  static let firstNoticed: UInt8 = 128
  static let noticedMax = 64
  static func noticed(_ index: Int) -> UInt8 { firstNoticed + UInt8(clamping: index) }
  static let caller: UInt8 = 254
  static let call: UInt8 = 255
  static let limit = 96

  struct Event: Sendable {
    var offsetMicroseconds: UInt32
    var who: UInt8
    var what: What
    /// Of what is about a push.
    var purpose: PushPurpose?
  }
  private(set) var events: [Event] = []
  /// Why pushes were rejected or failed, by the index of the event.
  private(set) var reasons: [Int: String] = [:]
  let start: Timestamp

  init(start: Timestamp) { self.start = start }

  mutating func note(_ what: What, _ who: UInt8, at now: Timestamp) {
    guard events.count < Self.limit else { return }
    let offset = UInt32(clamping: (now - start).microseconds)
    events.append(Event(offsetMicroseconds: offset, who: who, what: what))
  }

  mutating func note(
    _ what: What, _ who: UInt8, _ purpose: PushPurpose, at now: Timestamp
  ) {
    guard events.count < Self.limit else { return }
    note(what, who, at: now)
    events[events.count - 1].purpose = purpose
  }

  mutating func note(
    _ outcome: PushOutcome, _ who: UInt8, _ purpose: PushPurpose, at now: Timestamp
  ) {
    guard events.count < Self.limit else { return }
    let (what, reason): (What, String?) =
      switch outcome {
      case .accepted: (.pushAccepted, nil)
      case .tokenGone: (.pushTokenGone, nil)
      case .rejected(let reason): (.pushRejected, reason)
      case .expired: (.pushExpired, nil)
      case .failed(let reason, _): (.pushFailed, reason)
      }
    // A gateway repeats its report until it has the reply.
    let isRepeat = events.contains { $0.who == who && $0.what == what && $0.purpose == purpose }
    if isRepeat { return }
    note(what, who, purpose, at: now)
    if let reason, !reason.isEmpty { reasons[events.count - 1] = String(reason.prefix(80)) }
  }

  func time(_ event: Event) -> Timestamp {
    start + Span(microseconds: Int64(event.offsetMicroseconds))
  }
}
