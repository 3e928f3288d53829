public import CallCore
public import CallWire

/// What happened to a device's session and its calls.
public enum ClientEvent: Sendable, Equatable {
  /// The device is attached. Ringing calls follow as invites.
  /// - `again`: whether it had been attached before.
  case attached(AttachedInfo, again: Bool)
  /// The connection broke or could not be made. The device retries by itself at `retryAt`, by the
  /// device's monotonic clock.
  case detached(retryAt: Timestamp)
  /// The server at an edge's `wss://` address has no certificate that `EdgeTrust` accepts; the text says
  /// why. `detached` follows.
  case notTrusted(String)
  /// The cluster refused this device for its token or its id, or another session replaced this one. The
  /// device makes no further attempt.
  case refused(CallError)
  /// A command's reply. An error that asks for a retry is reported after the last attempt only.
  case replied(request: UInt64, ClientCommand, ServerReply)
  /// A command that no attempt got a reply to.
  case gaveUp(request: UInt64, ClientCommand)
  /// Something happened to a call.
  case call(CallID, CallEvent)
  /// The cluster informs the app, such as of a push token that another device took.
  case notice(Notice)
}

/// What happened to one call, as one device sees it. Each event comes once, and none after `stopped`.
public enum CallEvent: Sendable, Equatable {
  /// A call to this user: ring.
  case invited(Invite)
  /// To the caller: a device of the callee alerts its user.
  case ringing(by: Party)
  /// To the caller: a device answered.
  case answered(Answered)
  /// To the answering device: it won the call.
  case won(CallState)
  /// The call is over for this device.
  case stopped(Stop)
  /// A session description or ICE candidate of the other side.
  case signal(Signal)
}

extension Stop {
  /// The raw value of CallKit's `CXCallEndedReason`: 1 failed, 2 remote ended, 3 unanswered, 4 answered
  /// elsewhere, 5 declined elsewhere.
  ///
  /// - Parameter asCaller: whether this device placed the call, so that its own user did not decline.
  public func callKitReason(asCaller: Bool = false) -> Int {
    switch reason {
    case .answeredElsewhere, .glare: 4
    case .declined: asCaller ? 2 : 5
    case .cancelled, .hungUp: 2
    case .unanswered, .busy: 3
    case .unreachable, .failed: 1
    }
  }
}
