public import CallCore

/// What one push says: the job, and what was minted for it.
public struct PushContent: Sendable, Equatable {
  public var job: PushJob
  /// The device may decline the call, say busy or ask for the call's state with it, without logging in. Empty
  /// where there is none. It is secret, and goes into the payload only.
  public var capability: String

  public init(job: PushJob, capability: String = "") {
    self.job = job
    self.capability = capability
  }
}

/// A payload as it leaves, and how the provider is to treat it.
public struct PushPayload: Sendable, Equatable {
  /// JSON; for FCM the object of the message's `data`, whose values are all strings.
  public var bytes: [UInt8]
  public var kind: PushMessage.Kind
  /// 32 hex digits, the call's id, so that whatever comes later of a call replaces what is still on
  /// its way; fits APNs (64 bytes), Web Push (32 characters of base64url). Empty: none.
  public var collapseKey: String
  /// What was left out so that the rest fits, in the order in which it went.
  public var shed: [OptionalPart]

  /// The message for a sender.
  ///
  /// - Parameter id: the same for every attempt; APNs wants a lower-case UUID.
  public func message(id: String, for job: PushJob) -> PushMessage {
    PushMessage(
      id: id, token: job.token, purpose: job.purpose, payload: bytes, kind: kind,
      deadline: job.deadline, collapseKey: collapseKey)
  }
}

/// What a payload can do without: the device hears it when it attaches. In the order in which it is
/// left out.
public enum OptionalPart: UInt8, Sendable, CaseIterable {
  /// Custom headers, from the last to the first, as many as must go.
  case headers
  /// The name of the device that answered, declined or cancelled.
  case byDeviceName
  case callerDeviceName
  /// The device that answered, declined or cancelled.
  case byDevice
  case callerDevice
  case placedAt
}

/// What the encoder makes of a push.
public enum PayloadOutcome: Sendable, Equatable {
  case payload(PushPayload)
  /// The dialect, or the dialect at this provider, has no such push. Nothing is to be sent.
  case noSuchPush
  case refused(PayloadRefusal)

  /// What the shard is told where there is nothing to send; nil where there is.
  public var rejection: PushOutcome? {
    switch self {
    case .payload: nil
    case .noSuchPush: .rejected(reason: "dialectHasNone")
    case .refused(let refusal): .rejected(reason: refusal.reason)
    }
  }
}

public enum PayloadRefusal: Sendable, Equatable {
  /// It does not fit, though everything optional was left out.
  case tooLarge(bytes: Int, limit: Int)
  /// Sinch's own payload, relayed by the caller's header `SIN`, has more than 100 bytes.
  case relayedTooLarge(bytes: Int)

  public var reason: String {
    switch self {
    case .tooLarge: "payloadTooLarge"
    case .relayedTooLarge: "sinchPayloadTooLarge"
    }
  }
}
