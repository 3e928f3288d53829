public import CallCore

/// The content of a push: the job, and the capability minted for it.
public struct PushContent: Sendable, Equatable {
  public var job: PushJob
  /// The text of a `PushCapability`; empty if there is none. Secret: for the payload only.
  public var capability: String

  public init(job: PushJob, capability: String = "") {
    self.job = job
    self.capability = capability
  }
}

/// An encoded payload, and how the provider should handle it.
public struct PushPayload: Sendable, Equatable {
  /// JSON; for FCM the object of the message's `data`, whose values are all strings.
  public var bytes: [UInt8]
  public var kind: PushMessage.Kind
  /// As `PushMessage.apple`.
  public var apple: [UInt8] = []
  /// The call's id as 32 hex digits, so that a later push of a call replaces an earlier undelivered one. Fits APNs (64
  /// bytes) and Web Push (32 characters of base64url). Empty: none.
  public var collapseKey = ""
  /// The parts that were omitted so that the rest fits, in order.
  public var shed: [OptionalPart] = []

  package init(bytes: [UInt8], kind: PushMessage.Kind) {
    self.bytes = bytes
    self.kind = kind
  }

  /// The message for a sender.
  ///
  /// - Parameter id: the same for every attempt; for APNs a lower-case UUID.
  public func message(id: String, for job: PushJob) -> PushMessage {
    var message = PushMessage(
      id: id, token: job.token, purpose: job.purpose, payload: bytes, kind: kind,
      deadline: job.deadline, collapseKey: collapseKey)
    message.apple = apple
    return message
  }
}

/// Parts that a payload may omit, in the order of omission. The device receives them when it attaches.
public enum OptionalPart: UInt8, Sendable, CaseIterable {
  /// Custom headers, from the last to the first, as many as necessary.
  case headers
  /// The name of the device that answered, declined or cancelled.
  case byDeviceName
  case callerDeviceName
  /// The device that answered, declined or cancelled.
  case byDevice
  case callerDevice
  case placedAt
  /// The data that the caller's app gives to the callee's.
  case pushData
  /// The caller's display name: then the user's id stands for it.
  case callerName
}

/// The result of encoding a push.
public enum PayloadOutcome: Sendable, Equatable {
  case payload(PushPayload)
  /// The dialect has no such push, or none for this provider. Nothing is sent.
  case noSuchPush
  case refused(PayloadRefusal)

  /// The outcome to report if nothing is sent; nil for a payload.
  public var rejection: PushOutcome? {
    switch self {
    case .payload: nil
    case .noSuchPush: .rejected(reason: "dialectHasNone")
    case .refused(let refusal): .rejected(reason: refusal.reason)
    }
  }
}

public enum PayloadRefusal: Sendable, Equatable {
  /// It does not fit, even without all optional parts.
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
