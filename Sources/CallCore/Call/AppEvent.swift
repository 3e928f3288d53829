/// The events that an app's server learns by webhooks. Raw values are those of the stream. A call has those of calls in
/// this order, each at most once.
public enum AppEventKind: UInt8, Sendable, CaseIterable {
  case placed = 1
  /// The first device alerts.
  case ringing = 2
  case answered = 3
  case ended = 4
  /// It ended, and is a missed call of its callee.
  case missed = 5
  /// A device's registration is removed, or one of its push tokens.
  case gone = 6

  public var name: String { "\(self)" }
  /// The name in the file of keys and in webhooks.
  public var type: String { self == .gone ? "device.gone" : "call.\(self)" }
}

public struct AppEventKinds: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }
  public init(_ kind: AppEventKind) { rawValue = 1 << kind.rawValue }

  public static let all = AppEventKinds(AppEventKind.allCases.map { AppEventKinds($0) })

  public func contains(_ kind: AppEventKind) -> Bool { contains(AppEventKinds(kind)) }
}

/// Why a registration is gone, or one of its push tokens. Raw values are those of the stream.
public enum GoneCause: UInt8, Sendable, CaseIterable {
  /// The push provider no longer accepts the token.
  case refused = 0
  /// Another device of the app has registered the token.
  case taken = 1
  /// The device unregistered.
  case unregistered = 2
  /// The app's server removed the device.
  case removed = 3
  /// The device was not there for `registrationLifetime`.
  case expired = 4
  /// The user has registered more devices than the app allows, and this one had been away for longest.
  case displaced = 5

  public var name: String { "\(self)" }
}

/// A registration of a device that is gone, or one of its push tokens, as the app learns it.
public struct GoneRegistration: Sendable, Equatable {
  public var device: DeviceID
  public var deviceName: String
  public var cause: GoneCause
  /// The token's provider; `none` where the whole registration is gone.
  public var provider: PushProvider
  /// Whether it is the token for VoIP pushes, and not that for alerts.
  public var isVoIP: Bool
  /// The token's fingerprint; empty where the whole registration is gone.
  public var fingerprint: String
  /// When the device had registered last. With the fingerprint it identifies what is gone.
  public var registeredAt: Timestamp
  public init(
    device: DeviceID, deviceName: String = "", cause: GoneCause = .refused,
    provider: PushProvider = .none, isVoIP: Bool = false, fingerprint: String = "",
    registeredAt: Timestamp
  ) {
    self.device = device
    self.deviceName = deviceName
    self.cause = cause
    self.provider = provider
    self.isVoIP = isVoIP
    self.fingerprint = fingerprint
    self.registeredAt = registeredAt
  }
}

/// An event of a call, as it is stored for the app's webhooks. A new owner of the call's shard that stores it again
/// stores the same values, except that `at` of `ringing` may be some milliseconds later.
///
/// An event of a device (`gone`) has the lost registration or token instead. `callee` is then the device's user, and
/// the other fields of calls are blank.
public struct AppEvent: Sendable, Equatable {
  public var call: CallID
  public var kind: AppEventKind
  public var at: Timestamp
  public var callee: UserKey
  /// The party that placed it.
  public var caller: Party
  public var video: Bool
  public var placedAt: Timestamp
  /// The device that caused the event: it alerts, has answered or has ended the call; nil: none did.
  public var by: Party?
  /// For the end: when the call was answered; nil: it was not.
  public var answeredAt: Timestamp?
  /// For the end: its reason.
  public var reason: EndReason?
  /// For the end: whether it is a missed call of the callee.
  public var missed = false
  /// For the end of a call that crossed another one: the call that goes on.
  public var survivor: CallID?
  /// For the end: the call's diversions and transfers, as in its record.
  public var diversions: [CallRecord.Diversion] = []
  /// For a device's event: the registration that is gone, or the token.
  public var gone: GoneRegistration?

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

  /// An event of a device.
  /// - Parameter at: when it was lost. For a refused token: since when the provider rejects it, or when it said so.
  public init(_ gone: GoneRegistration, of user: UserKey, at: Timestamp) {
    self.init(
      call: CallID(high: 0, low: 0), kind: .gone, at: at, callee: user,
      caller: Party(user: "", device: ""), video: false, placedAt: Timestamp(microseconds: 0))
    self.gone = gone
  }
}

extension AppEvent {
  /// The subject of an event. Each subject has each kind once, in the order of the kinds.
  public enum Subject: Hashable, Sendable {
    case call(PlacedCall)
    /// A registration of a device, or a token of it: a hash of user, device and token, and when it was registered.
    case registration(UInt64, at: Int64)
  }

  /// Events that a webhook gets one after the other: the events of a call, or of a device.
  public enum Line: Hashable, Sendable {
    case call(PlacedCall)
    /// A hash of user and device. Two devices with the same hash only wait for each other.
    case device(UInt64)
  }

  public var subject: Subject {
    guard let gone else { return .call(PlacedCall(call, placedAt: placedAt)) }
    return .registration(
      hash([gone.device.text, gone.fingerprint]), at: gone.registeredAt.milliseconds)
  }

  public var line: Line {
    guard let gone else { return .call(PlacedCall(call, placedAt: placedAt)) }
    return .device(hash([gone.device.text]))
  }

  /// Names a device in the identity of an event about its whole registration: 16 hex digits.
  public var goneName: String {
    let digits = String(hash([gone?.device.text ?? ""]), radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  private func hash(_ texts: [String]) -> UInt64 {
    var hash = FNV1a()
    for text in [callee.app, callee.user] + texts { hash.add(text, end: 0xff) }
    return hash.value
  }
}

/// A message of the stream of events: some events of one app. Events of a call are in their order.
public struct AppEventBatch: Sendable, Equatable {
  /// nil stands for an event of a kind that this version does not know.
  public var events: [AppEvent?]
  public init(events: [AppEvent?]) { self.events = events }
}
