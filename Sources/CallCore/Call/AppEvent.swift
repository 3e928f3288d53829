/// What an app's server learns of a call by webhooks. Raw values are those of the stream, in the order in which a call
/// has them; each call has each at most once.
public enum AppEventKind: UInt8, Sendable, CaseIterable {
  case placed = 1
  /// The first device alerts.
  case ringing = 2
  case answered = 3
  case ended = 4
  /// It ended, and is a missed call of its callee.
  case missed = 5

  public var name: String { "\(self)" }
  /// As the file of keys and webhooks call it.
  public var type: String { "call.\(self)" }
}

public struct AppEventKinds: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }
  public init(_ kind: AppEventKind) { rawValue = 1 << kind.rawValue }

  public static let all = AppEventKinds(AppEventKind.allCases.map { AppEventKinds($0) })

  public func contains(_ kind: AppEventKind) -> Bool { contains(AppEventKinds(kind)) }
}

/// An event of a call, as it is stored for the app's webhooks. Whoever stores it again, as a new owner of the call's
/// shard does, stores the same, but that `at` of `ringing` may be some milliseconds later.
public struct AppEvent: Sendable, Equatable {
  public var call: CallID
  public var kind: AppEventKind
  public var at: Timestamp
  public var callee: UserKey
  /// Who placed it.
  public var caller: Party
  public var video: Bool
  public var placedAt: Timestamp
  /// Whose doing it was: the device that alerts, has answered or has ended the call; nil: nobody's.
  public var by: Party?
  /// Of the end: when somebody had answered; nil: nobody had.
  public var answeredAt: Timestamp?
  /// Of the end.
  public var reason: EndReason?
  /// Of the end: whether it is a missed call of the callee.
  public var missed = false
  /// Of the end of a call that crossed another one: the call that goes on.
  public var survivor: CallID?

  public var placedCall: PlacedCall { PlacedCall(call, placedAt: placedAt) }

  public init(
    call: CallID, kind: AppEventKind, at: Timestamp, callee: UserKey, caller: Party, video: Bool,
    placedAt: Timestamp, by: Party? = nil
  ) {
    self.call = call
    self.kind = kind
    self.at = at
    self.callee = callee
    self.caller = caller
    self.video = video
    self.placedAt = placedAt
    self.by = by
  }
}

/// A message of the stream of events: some events of one app, those of a call in their order.
public struct AppEventBatch: Sendable, Equatable {
  /// nil stands for an event of a kind that this version does not know.
  public var events: [AppEvent?]
  public init(events: [AppEvent?]) { self.events = events }
}
