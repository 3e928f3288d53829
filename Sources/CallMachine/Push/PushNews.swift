public import CallCore

/// The content of a push.
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

  /// The purpose of the push.
  public var purpose: PushPurpose {
    switch self {
    case .invite: .ring
    case .stop(let stop): stop.purpose
    case .missed: .missedNotice
    }
  }

  /// When the push was sent, by the cluster's clock; nil: the payload does not say.
  public var sentAt: Timestamp? {
    switch self {
    case .invite(let invite): invite.sentAt
    case .stop(let stop): stop.sentAt
    case .missed(let notice): notice.sentAt
    }
  }
}

/// An incoming call. This is a hint only: the cluster's reply to an attach for this call is authoritative.
public struct PushInvite: Sendable, Equatable {
  public var call: CallID
  /// The called user, which with `call` makes the call's address; nil: the payload does not say.
  public var callee: String?
  /// The caller's user id or number, to be shown, and for CallKit's handle.
  public var handle: String
  /// The caller; nil: the payload has only a handle.
  public var caller: Party?
  public var video: Bool
  public var headers: [CustomHeader]
  /// The data that the caller's app gave to this one; empty: there is none, or there was no room for it, and it comes
  /// with the invite.
  public var pushData: String
  /// When the call was placed, by the cluster's clock.
  public var placedAt: Timestamp?
  /// When the push was sent, by the cluster's clock.
  public var sentAt: Timestamp?
  /// The end of the ring timeout, by the cluster's clock.
  public var deadline: Timestamp?
  /// The credential for `PushActions`. A secret.
  public var capability: String?

  package init(
    call: CallID, callee: String? = nil, handle: String, caller: Party? = nil, video: Bool = false,
    headers: [CustomHeader] = [], pushData: String = "", placedAt: Timestamp? = nil,
    sentAt: Timestamp? = nil, deadline: Timestamp? = nil, capability: String? = nil
  ) {
    self.pushData = pushData
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
    /// The push came too late. A VoIP push must be reported to CallKit all the same, and the call ended
    /// at once.
    case expired(since: Span)
    /// The payload has no deadline, or this device does not know the cluster's time: its own clock may be off by minutes.
    /// The reply to an attach for the call decides.
    case unknown
  }

  /// Judges the push's age.
  ///
  /// - Parameters:
  ///   - now: the time by this device's clock.
  ///   - serverOffset: the cluster's clock minus this device's, from the last `attached`; nil: not known. If the send
  ///     time is in the future by this, the push counts as just sent.
  public func freshness(at now: Timestamp, serverOffset: Span?) -> Freshness {
    guard let deadline, let serverOffset else { return .unknown }
    let now = max(now + serverOffset, sentAt ?? Timestamp(microseconds: .min))
    return now < deadline ? .rings(remaining: deadline - now) : .expired(since: now - deadline)
  }

  /// The push's transit time, never negative; nil: the payload does not say when it was sent.
  public func age(at now: Timestamp, serverOffset: Span = .seconds(0)) -> Span? {
    guard let sentAt else { return nil }
    return max(now + serverOffset - sentAt, .seconds(0))
  }
}

/// The end, for this device, of a call that a push made ring.
public struct PushStop: Sendable, Equatable {
  public var call: CallID
  /// Which kind of push this is.
  public var purpose: PushPurpose
  /// The called user; nil: the payload does not say.
  public var callee: String?
  /// nil: the payload's dialect does not say.
  public var reason: EndReason?
  /// Who answered, declined or cancelled.
  public var by: Party?
  /// The raw value of `CXCallEndedReason`. Without a reason in the payload, the one that the dialect's SDK
  /// reports.
  public var callKitReason: Int
  /// When the push was sent, by the cluster's clock.
  public var sentAt: Timestamp?
  /// Whether iOS requires that this push is reported to CallKit as a new call first, and ended at once if
  /// the call is not known.
  public var mustReportCall: Bool
  /// How many missed calls of the user are unread; nil: the payload does not say.
  public var unread: UInt32?

  package init(
    call: CallID, purpose: PushPurpose, callee: String? = nil, reason: EndReason? = nil,
    by: Party? = nil, callKitReason: Int, sentAt: Timestamp? = nil, mustReportCall: Bool = true,
    unread: UInt32? = nil
  ) {
    self.unread = unread
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
  /// How many missed calls of the user are unread, with this one; nil: the payload does not say.
  public var unread: UInt32?
}

// Leaves out the capability, so that no log contains it.
extension PushInvite: CustomStringConvertible {
  public var description: String {
    "invite to call \(call) by \(handle)" + (capability == nil ? "" : ", with a capability")
  }
}

/// Why a payload could not be read. It names members and never contains values.
///
/// A VoIP push must be reported to CallKit even so: report a call and end it at once.
public enum PushReadError: Error, Sendable, Equatable, CustomStringConvertible {
  /// Not a JSON object, or too large to be a push.
  case notAPayload
  /// A push of another sender or dialect.
  case foreign
  /// A required member is absent.
  case missing(String)
  /// A member has a value of the wrong type or form.
  case invalid(String)
  /// The payload has a later major version.
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
