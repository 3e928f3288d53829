public import CallCore

/// What a push tells a device.
public enum PushNews: Sendable, Equatable {
  case invite(PushInvite)
  case stop(PushStop)
  case missed(MissedCallNotice)

  public var call: CallID {
    switch self {
    case .invite(let invite): invite.call
    case .stop(let stop): stop.call
    case .missed(let notice): notice.call
    }
  }

  /// What the push was for.
  public var purpose: PushPurpose {
    switch self {
    case .invite: .ring
    case .stop(let stop): stop.purpose
    case .missed: .missedNotice
    }
  }

  /// By the cluster's clock. nil: the payload does not say.
  public var sentAt: Timestamp? {
    switch self {
    case .invite(let invite): invite.sentAt
    case .stop(let stop): stop.sentAt
    case .missed(let notice): notice.sentAt
    }
  }
}

/// Somebody calls. A hint only: what the cluster answers to `attach` for this call is the truth.
public struct PushInvite: Sendable, Equatable {
  public var call: CallID
  /// The user that is called: with `call` the call's address. nil: the payload does not say.
  public var callee: String?
  /// What to show, and CallKit's handle: the caller's user id or number.
  public var handle: String
  /// nil: the payload has only a handle.
  public var caller: Party?
  public var video: Bool
  public var headers: [CustomHeader]
  /// All by the cluster's clock.
  public var placedAt: Timestamp?
  public var sentAt: Timestamp?
  /// Until when it rings.
  public var deadline: Timestamp?
  /// With which to decline, to say busy or to ask the state without logging in. A secret.
  public var capability: String?

  public init(
    call: CallID, callee: String? = nil, handle: String, caller: Party? = nil, video: Bool = false,
    headers: [CustomHeader] = [], placedAt: Timestamp? = nil, sentAt: Timestamp? = nil,
    deadline: Timestamp? = nil, capability: String? = nil
  ) {
    self.call = call
    self.callee = callee
    self.handle = handle
    self.caller = caller
    self.video = video
    self.headers = headers
    self.placedAt = placedAt
    self.sentAt = sentAt
    self.deadline = deadline
    self.capability = capability
  }

  /// Whether the call can still ring.
  public enum Freshness: Sendable, Equatable {
    case rings(remaining: Span)
    /// A push may come long after it was sent. It must be reported to CallKit all the same where it
    /// is a VoIP push, and ended at once.
    case expired(since: Span)
    /// The payload has no deadline.
    case unknown
  }

  /// Judges the push's age.
  ///
  /// - Parameters:
  ///   - now: by this device's clock.
  ///   - serverOffset: the cluster's clock less this device's, as the last `attached` had it. A clock
  ///     that is behind by more than the push has travelled shows by a send time in the future: then
  ///     the push counts as just sent.
  public func freshness(at now: Timestamp, serverOffset: Span = .seconds(0)) -> Freshness {
    guard let deadline else { return .unknown }
    let now = max(now + serverOffset, sentAt ?? Timestamp(microseconds: .min))
    return now < deadline ? .rings(remaining: deadline - now) : .expired(since: now - deadline)
  }

  /// How long the push travelled; never negative. nil: the payload does not say when it was sent.
  public func age(at now: Timestamp, serverOffset: Span = .seconds(0)) -> Span? {
    guard let sentAt else { return nil }
    return max(now + serverOffset - sentAt, .seconds(0))
  }
}

/// The call that a push made ring is over for this device.
public struct PushStop: Sendable, Equatable {
  public var call: CallID
  /// Which of the pushes that end a call it is.
  public var purpose: PushPurpose
  public var callee: String?
  /// nil: the payload's dialect does not say.
  public var reason: EndReason?
  /// Who answered, declined or cancelled.
  public var by: Party?
  /// `CXCallEndedReason`'s raw value, as the dialect's SDK reports it where the payload has no reason.
  public var callKitReason: Int
  public var sentAt: Timestamp?
  /// Whether the push is of those that must be reported to CallKit as a new call before anything
  /// else, and ended at once where the call is not known.
  public var mustReportCall: Bool

  public init(
    call: CallID, purpose: PushPurpose, callee: String? = nil, reason: EndReason? = nil,
    by: Party? = nil, callKitReason: Int, sentAt: Timestamp? = nil, mustReportCall: Bool = true
  ) {
    self.call = call
    self.purpose = purpose
    self.callee = callee
    self.reason = reason
    self.by = by
    self.callKitReason = callKitReason
    self.sentAt = sentAt
    self.mustReportCall = mustReportCall
  }
}

/// The user missed a call.
public struct MissedCallNotice: Sendable, Equatable {
  public var call: CallID
  public var callee: String?
  public var handle: String
  public var caller: Party?
  public var video: Bool
  public var placedAt: Timestamp?
  public var sentAt: Timestamp?
  public var reason: EndReason?

  public init(
    call: CallID, callee: String? = nil, handle: String, caller: Party? = nil, video: Bool = false,
    placedAt: Timestamp? = nil, sentAt: Timestamp? = nil, reason: EndReason? = nil
  ) {
    self.call = call
    self.callee = callee
    self.handle = handle
    self.caller = caller
    self.video = video
    self.placedAt = placedAt
    self.sentAt = sentAt
    self.reason = reason
  }
}

// A capability stands in no log.
extension PushInvite: CustomStringConvertible {
  public var description: String {
    "invite to call \(call) by \(handle)" + (capability == nil ? "" : ", with a capability")
  }
}

/// Why a payload could not be read. Names members, never shows values.
///
/// A VoIP push must be reported to CallKit even so: report a call and end it at once.
public enum PushReadError: Error, Sendable, Equatable, CustomStringConvertible {
  /// Not a JSON object, or too large to be a push.
  case notAPayload
  /// No push of this dialect: not ours to read.
  case foreign
  case missing(String)
  case invalid(String)
  /// Written by a later version, in a form that this one cannot understand.
  case laterVersion(Int64)

  public var description: String {
    switch self {
    case .notAPayload: "The payload is not a JSON object."
    case .foreign: "The payload is of another dialect."
    case .missing(let name): "The payload has no \(name)."
    case .invalid(let name): "The payload's \(name) is not valid."
    case .laterVersion(let version): "The payload has version \(version); this reads version 1."
    }
  }
}

extension EndReason {
  /// `CXCallEndedReason`'s raw value for a callee's device: 1 failed, 2 remote ended, 3 unanswered,
  /// 4 answered elsewhere, 5 declined elsewhere.
  var callKitReason: Int { Stop(reason: self).callKitReason() }
}
