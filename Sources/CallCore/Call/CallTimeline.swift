/// The events of a call and their times, for the question "why did my phone not ring". Small enough to be kept for
/// every call.
struct CallTimeline: Sendable {
  typealias What = CallEventKind

  // An event's `who`: below `firstNoticed` the index of a leg, from there on a device without a leg.
  static let firstNoticed: UInt8 = 128
  static let noticedMax = 126
  static func noticed(_ index: Int) -> UInt8 { firstNoticed + UInt8(clamping: index) }
  static let caller: UInt8 = 254
  static let call: UInt8 = 255
  /// Events of a call. Policy: drop the newest, and count it (`dropped`). A call with the most devices,
  /// all of which ring, needs 106.
  static let eventsMax = 320
  static let passingMax = 224
  static let detailsMax = 144

  struct Event: Sendable {
    var offsetMicroseconds: UInt32
    var who: UInt8
    var what: What
    /// In events about a push.
    var purpose: PushPurpose?
  }
  private(set) var events: [Event] = []
  /// Events that were not kept.
  private(set) var dropped = 0
  /// Why pushes were rejected or failed, by the index of the event.
  private(set) var reasons: [Int: String] = [:]
  let start: Timestamp

  init(start: Timestamp) { self.start = start }

  /// - Parameter purpose: the push's purpose, if the event is about a push.
  /// - Returns: whether it is kept.
  @discardableResult
  mutating func note(
    _ what: What, _ who: UInt8, _ purpose: PushPurpose? = nil, at now: Timestamp
  ) -> Bool {
    guard events.count < what.limit else {
      dropped += 1
      return false
    }
    let offset = UInt32(clamping: (now - start).microseconds)
    events.append(Event(offsetMicroseconds: offset, who: who, what: what, purpose: purpose))
    return true
  }

  mutating func note(
    _ outcome: PushOutcome, _ who: UInt8, _ purpose: PushPurpose, at now: Timestamp
  ) {
    let (what, reason): (What, String?) =
      switch outcome {
      case .accepted, .acceptedIn: (.pushAccepted, nil)
      case .tokenGone: (.pushTokenGone, nil)
      case .tokenRefused(let reason, isSure: true): (.pushTokenGone, reason)
      case .rejected(let reason): (.pushRejected, reason)
      case .expired: (.pushExpired, nil)
      case .failed(let reason, _), .tokenRefused(let reason, isSure: false):
        (.pushFailed, reason)
      }
    // A gateway repeats its report until it has the reply.
    let isRepeat = events.contains { $0.who == who && $0.what == what && $0.purpose == purpose }
    if isRepeat { return }
    guard note(what, who, purpose, at: now) else { return }
    if let reason, !reason.isEmpty { reasons[events.count - 1] = String(reason.prefix(80)) }
  }

  func time(_ event: Event) -> Timestamp {
    start + Span(microseconds: Int64(event.offsetMicroseconds))
  }
}

/// The kind of an event. Raw values are those of records.
public enum CallEventKind: UInt8, Sendable, CaseIterable {
  case placed = 1
  case joined = 2
  case invited = 3
  case repeated = 4
  case acknowledged = 5
  case alerting = 6
  case answered = 7
  case declined = 8
  case declinedHere = 9
  case busy = 10
  case left = 11
  case attached = 12
  case sessionLost = 13
  case connected = 14
  case stopped = 15
  case hungUp = 16
  case cancelled = 17
  case ended = 18
  case takenOver = 19
  // Each with a purpose.
  case pushed = 20
  case pushAccepted = 21
  case pushTokenGone = 22
  case pushRejected = 23
  case pushExpired = 24
  case pushFailed = 25
  case moved = 26
  case diverted = 27
  /// A device hands its side over.
  case transferring = 28
  case transferFailed = 29
  /// The app's server ended the call.
  case endedByApp = 40

  /// As operators see it.
  public var name: String {
    switch self {
    case .placed, .joined, .repeated, .acknowledged, .alerting, .answered, .declined, .busy, .left,
      .attached, .connected, .stopped, .ended, .cancelled:
      "\(self)"
    case .invited: "delivered"
    case .declinedHere: "declined here"
    case .sessionLost: "session lost"
    case .hungUp: "hung up"
    case .takenOver: "shard taken over"
    case .pushed: "push queued"
    case .pushAccepted: "push accepted"
    case .pushTokenGone: "push token gone"
    case .pushRejected: "push rejected"
    case .pushExpired: "push expired"
    case .pushFailed: "push failed"
    case .moved: "taken over"
    case .diverted: "diverted"
    case .transferring: "transfer begun"
    case .transferFailed: "transfer failed"
    case .endedByApp: "ended by the app's server"
    }
  }

  /// An event of this kind is kept while there are fewer events than this. Kinds that can come in any number are
  /// dropped first, then those that flapping connections cause. Decisions happen once, or once for each device.
  fileprivate var limit: Int {
    switch self {
    case .acknowledged, .repeated, .pushed, .pushAccepted, .pushTokenGone, .pushRejected,
      .pushExpired, .pushFailed:
      CallTimeline.detailsMax
    case .joined, .invited, .alerting, .left, .sessionLost, .attached, .moved:
      CallTimeline.passingMax
    case .placed, .answered, .declined, .declinedHere, .busy, .connected, .stopped,
      .ended, .hungUp, .cancelled, .takenOver, .diverted, .transferring, .transferFailed,
      .endedByApp:
      CallTimeline.eventsMax
    }
  }
}
