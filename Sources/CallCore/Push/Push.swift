/// What a push is for.
///
/// Raw values are those of the journal and of push jobs.
public enum PushPurpose: UInt8, Sendable, CaseIterable {
  /// Wakes the device: it rings.
  case ring = 1
  /// To a device that a push made ring: nobody answered. A VoIP push.
  case missed = 2
  /// To a device that a push made ring: another answered, or declined for the user. A VoIP push.
  case answeredElsewhere = 3
  /// To a device that a push made ring: the call ended, whatever the reason. The VoIP push of SDKs
  /// that know only this one.
  case cancel = 4
  /// To a device that a push made ring: the call ended. Not a VoIP push, so it need report no call.
  case ended = 5
  /// Tells the user of a missed call.
  case missedNotice = 6

  public var name: String { "\(self)" }

  /// Whether it tells a device that a push made ring that the call ended.
  public var isCleanUp: Bool {
    switch self {
    case .missed, .answeredElsewhere, .cancel, .ended: true
    case .ring, .missedNotice: false
    }
  }
}

/// How the payloads for a device are written: what its SDK reads.
public enum PushDialect: String, Sendable, CaseIterable {
  case callmesh
  /// As in Apple's notes on PushKit and CallKit: `callUUID`, `handle`.
  case apple
  /// Fusion Client SDK: `UUID`, `handle`, `hasVideo`.
  case fcsdk
  case telnyx
  case twilio
  case sinch
}

/// Which pushes a device takes beside those that make it ring. They are fixed when it registers: the SDK that
/// registered counts, not one that was installed later.
public struct PushCapabilities: OptionSet, Sendable, Hashable {
  public var rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }

  /// Takes `PushPurpose.missed`.
  public static let missed = PushCapabilities(rawValue: 1 << 0)
  /// Takes `PushPurpose.answeredElsewhere`.
  public static let answeredElsewhere = PushCapabilities(rawValue: 1 << 1)
  /// Takes `PushPurpose.cancel`.
  public static let cancel = PushCapabilities(rawValue: 1 << 2)
  /// Takes `PushPurpose.ended`, on its alert token.
  public static let ended = PushCapabilities(rawValue: 1 << 3)
  /// Takes `PushPurpose.missedNotice`, on its alert token.
  public static let missedNotice = PushCapabilities(rawValue: 1 << 4)
}

extension PushJob {
  /// The same for every addition to the work queue, which takes each once.
  public var id: String {
    var hash = FNV1a()
    for text in [user.app, user.user, device.text] { hash.add(text, end: 0xff) }
    return "\(call).\(String(hash.value, radix: 16)).\(purpose.rawValue)"
  }
}

extension Registration {
  /// The token whose push makes the device ring: that for VoIP; else the other one, where its provider
  /// wakes an app by any push. On Apple's an alert only shows: it cannot ring.
  public var ringToken: PushToken? {
    if let token = request.voipToken, token.provider != .none { return token }
    return wakingAlertToken
  }

  private var wakingAlertToken: PushToken? {
    guard let token = request.alertToken else { return nil }
    switch token.provider {
    case .fcm, .webPush: return token
    case .apns, .none: return nil
    }
  }

  /// The token for what need report no call: the alert token; else the other one, where its provider
  /// makes no difference.
  public var noticeToken: PushToken? {
    if let token = request.alertToken, token.provider != .none { return token }
    guard let token = request.voipToken else { return nil }
    switch token.provider {
    case .fcm, .webPush: return token
    case .apns, .none: return nil
    }
  }

  public func token(for purpose: PushPurpose) -> PushToken? {
    switch purpose {
    case .ring, .missed, .answeredElsewhere, .cancel: ringToken
    case .ended, .missedNotice: noticeToken
    }
  }

  /// How its SDK reads pushes; of a name that nobody knows, as Callmesh's own.
  public var dialect: PushDialect { PushDialect(rawValue: request.dialect) ?? .callmesh }

  /// Of all its tokens, where they are known.
  var fingerprints: [String] {
    var all: [String] = []
    for token in [request.voipToken, request.alertToken] {
      if let print = token?.fingerprint, !print.isEmpty, !all.contains(print) { all.append(print) }
    }
    return all
  }

  /// Without the tokens of this fingerprint; nil: it has none.
  func without(_ fingerprint: String) -> Registration? {
    guard !fingerprint.isEmpty else { return nil }
    var less = self
    if request.voipToken?.fingerprint == fingerprint { less.request.voipToken = nil }
    if request.alertToken?.fingerprint == fingerprint { less.request.alertToken = nil }
    return less == self ? nil : less
  }
}

/// One push to one device, as the shard decided it. What the gateway makes of it is a dialect's
/// matter.
public struct PushJob: Sendable, Equatable {
  public var user: UserKey
  public var device: DeviceID
  public var call: CallID
  public var purpose: PushPurpose
  public var token: PushToken
  public var dialect: PushDialect
  public var caller: Party
  public var video: Bool
  public var headers: [CustomHeader]
  public var placedAt: Timestamp
  /// Until when the call rings.
  public var ringDeadline: Timestamp
  /// When it was decided: the send time that the payload names.
  public var decidedAt: Timestamp
  /// After this it is dropped unsent.
  public var deadline: Timestamp
  /// Of an ended call.
  public var reason: EndReason?
  /// Who answered, declined or cancelled.
  public var by: Party?
  /// Of a clean-up: what became of the push that was to make the device ring was not known when this was
  /// decided. Perhaps it never left, and then there is nothing to tell.
  public var isRingUnknown: Bool

  public init(
    user: UserKey, device: DeviceID, call: CallID, purpose: PushPurpose, token: PushToken,
    dialect: PushDialect, caller: Party, video: Bool, headers: [CustomHeader], placedAt: Timestamp,
    ringDeadline: Timestamp, decidedAt: Timestamp, deadline: Timestamp, reason: EndReason? = nil,
    by: Party? = nil, isRingUnknown: Bool = false
  ) {
    self.user = user
    self.device = device
    self.call = call
    self.purpose = purpose
    self.token = token
    self.dialect = dialect
    self.caller = caller
    self.video = video
    self.headers = headers
    self.placedAt = placedAt
    self.ringDeadline = ringDeadline
    self.decidedAt = decidedAt
    self.deadline = deadline
    self.reason = reason
    self.by = by
    self.isRingUnknown = isRingUnknown
  }
}

/// A device in a call, as pushes know it.
public struct PushLeg: Sendable, Hashable {
  public var call: CallID
  public var device: DeviceID
  public init(call: CallID, device: DeviceID) {
    self.call = call
    self.device = device
  }
}

/// What became of a push.
public enum PushOutcome: Sendable, Equatable {
  /// The provider has it; not: the device has it.
  case accepted
  /// The provider knows no such token, since `at`; nil where it did not say since when.
  case tokenGone(at: Timestamp?)
  /// The provider, or we ourselves, will not send it, now or later: the payload, the key, the topic.
  /// `reason` is the provider's word for it, or ours.
  case rejected(reason: String)
  /// Its deadline passed first, or its call ended.
  case expired
  /// No attempt before the deadline worked. `mayHaveArrived`: nobody knows of one whether the provider
  /// has it, so the device may have been woken all the same.
  case failed(reason: String, mayHaveArrived: Bool = false)
}

/// A gateway's report of one push to the shard that wanted it.
public struct PushReport: Sendable, Equatable {
  public var call: CallID
  public var device: DeviceID
  public var purpose: PushPurpose
  /// Of the token it was for: a newer one is not touched.
  public var fingerprint: String
  public var outcome: PushOutcome
  /// When the provider answered, by the gateway's clock.
  public var at: Timestamp
  public init(
    call: CallID, device: DeviceID, purpose: PushPurpose, fingerprint: String, outcome: PushOutcome,
    at: Timestamp
  ) {
    self.call = call
    self.device = device
    self.purpose = purpose
    self.fingerprint = fingerprint
    self.outcome = outcome
    self.at = at
  }
}
