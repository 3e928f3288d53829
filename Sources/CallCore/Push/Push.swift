/// The purpose of a push.
///
/// Raw values are those of the journal and of push jobs.
public enum PushPurpose: UInt8, Sendable, CaseIterable {
  /// Wakes the device: it rings.
  case ring = 1
  /// To a device that a push made ring: the call was not answered. A VoIP push.
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

  /// Whether it has the number of unread missed calls, where there is one. A ring push does not wait for a number, and
  /// other VoIP pushes show none.
  public var showsUnread: Bool {
    switch self {
    case .ended, .missedNotice: true
    case .ring, .missed, .answeredElsewhere, .cancel: false
    }
  }

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

extension PushJob {
  /// The same for every addition to the work queue, which takes each once.
  public var id: String {
    var hash = FNV1a()
    for text in [user.app, user.user, device.text] { hash.add(text, end: 0xff) }
    let id = "\(call).\(String(hash.value, radix: 16)).\(purpose.rawValue)"
    return round == 0 ? id : "\(id).\(round)"
  }
}

/// One push to one device, as the shard decided it. A dialect decides the payload that the gateway sends.
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
  /// The reason of the end, for an ended call.
  public var reason: EndReason?
  /// The party that answered, declined or cancelled.
  public var by: Party?
  /// For a clean-up: the result of the device's ring push was unknown when this was decided. If that push never left,
  /// this one is not needed.
  public var isRingUnknown: Bool
  /// For a ring: data that the caller's app gives to the callee's; opaque.
  public var pushData: String
  /// The user who was called, if that is another than `user`: the call is in that one's shard. Empty: it is `user`.
  public var calledUser = ""
  /// Whether the token is the device's for alerts. On Apple's platforms a push that rings is then an alert.
  public var hasAlertToken: Bool
  /// How many missed calls of the user are unread; nil: the app keeps no history, or it could not be read in time. The
  /// driver counts them (`ShardMachine.unreadQuestion`).
  public var unread: UInt32?
  /// Whether the app has webhooks. The gateway's report repeats it: the shard of a device does not know that, and calls
  /// are forgotten before some reports come.
  public var hasWebhooks = false
  /// The number of the call's ringing to which it belongs: 0 is the first one, and each transfer is another.
  public var round: UInt8 = 0
  /// The registration's knowledge of the token.
  public var trust = TokenTrust.unproven

  public init(
    user: UserKey, device: DeviceID, call: CallID, purpose: PushPurpose, token: PushToken,
    dialect: PushDialect, caller: Party, video: Bool, headers: [CustomHeader], placedAt: Timestamp,
    ringDeadline: Timestamp, decidedAt: Timestamp, deadline: Timestamp, reason: EndReason? = nil,
    by: Party? = nil, isRingUnknown: Bool = false, pushData: String = "",
    hasAlertToken: Bool = false
  ) {
    self.pushData = pushData
    self.hasAlertToken = hasAlertToken
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

extension PushJob {
  /// The user in whose shard the call is.
  public var callee: UserKey {
    calledUser.isEmpty ? user : UserKey(app: user.app, user: calledUser)
  }
}

/// A call rings once when it is placed, and once more with each transfer.
public struct PushRinging: Sendable, Hashable {
  public var call: CallID
  /// As of `PushJob`.
  public var round: UInt8
  public init(call: CallID, round: UInt8 = 0) {
    self.call = call
    self.round = round
  }
}

/// A device in a call, for pushes.
public struct PushLeg: Sendable, Hashable {
  public var call: CallID
  /// The device's user: other users of the app may have devices of its name.
  public var user: String
  public var device: DeviceID
  /// As of `PushJob`.
  public var round: UInt8
  public init(call: CallID, user: String, device: DeviceID, round: UInt8 = 0) {
    self.call = call
    self.user = user
    self.device = device
    self.round = round
  }
}

/// The outcome of a push.
public enum PushOutcome: Sendable, Equatable {
  /// The provider has it; not: the device has it.
  case accepted
  /// As `accepted`, and the token belongs to another environment of the provider than was said.
  case acceptedIn(environment: String)
  /// The provider has rejected the token since `at`; nil where it gave no time.
  case tokenGone(at: Timestamp?)
  /// The provider refuses the token, or does not know it. `isSure`: the token is wrong, unless it was accepted before.
  /// Else the provider or the configuration may be at fault for a while.
  case tokenRefused(reason: String, isSure: Bool = false)
  /// The provider, or we ourselves, will not send it, now or later: the payload, the key, the topic.
  /// `reason` is the provider's word for it, or ours.
  case rejected(reason: String)
  /// Its deadline passed first, or its call ended.
  case expired
  /// No attempt before the deadline succeeded. `mayHaveArrived`: the result of one attempt is unknown, so the
  /// device may have been woken all the same.
  case failed(reason: String, mayHaveArrived: Bool = false)
}

/// A gateway's report of one push to the shard that wanted it.
public struct PushReport: Sendable, Equatable {
  public var call: CallID
  public var device: DeviceID
  public var purpose: PushPurpose
  /// The fingerprint of the token that it was for: a newer token is not touched.
  public var fingerprint: String
  public var outcome: PushOutcome
  /// When the provider answered, by the gateway's clock.
  public var at: Timestamp
  /// As in the job: the app learns of a token that is gone.
  public var hasWebhooks: Bool
  /// As in the job.
  public var round: UInt8 = 0
  /// As in the job: the registration notes that a token is proven.
  public var trust = TokenTrust.unproven
  public init(
    call: CallID, device: DeviceID, purpose: PushPurpose, fingerprint: String, outcome: PushOutcome,
    at: Timestamp, hasWebhooks: Bool = false
  ) {
    self.hasWebhooks = hasWebhooks
    self.call = call
    self.device = device
    self.purpose = purpose
    self.fingerprint = fingerprint
    self.outcome = outcome
    self.at = at
  }
}
