public import CallCore
public import CallWire

/// What a device's connection and calls have to tell the app.
public enum ClientEvent: Sendable, Equatable {
  /// The device is attached; calls that ring follow as invites. `again`: it had been before.
  case attached(AttachedInfo, again: Bool)
  /// The connection broke or could not be made; the next attempt comes by itself at `retryAt`.
  case detached(retryAt: Timestamp)
  /// Who answered at an edge's `wss://` address did not show that it is one: in words. Goes before `detached`.
  case notTrusted(String)
  /// The cluster will not have this device: its token, its id, or another session in its place. No
  /// further attempt is made.
  case refused(CallError)
  /// A command's reply. Errors that ask for another attempt do not appear until the last.
  case replied(request: UInt64, ClientCommand, ServerReply)
  /// A command that was never answered, however often it was sent.
  case gaveUp(request: UInt64, ClientCommand)
  case call(CallID, CallEvent)
  case notice(Notice)
}

/// What happens to one call, as one device hears it: each thing once, and nothing after the end.
public enum CallEvent: Sendable, Equatable {
  /// Ring.
  case invited(Invite)
  /// To the caller: a device alerts its user.
  case ringing(by: Party)
  /// To the caller: somebody answered.
  case answered(Answered)
  /// To the answering device: it has the call.
  case won(CallState)
  /// It is over for this device.
  case stopped(Stop)
  /// A description or candidate of the other side.
  case signal(Signal)
}

extension Stop {
  /// What CallKit is to be told, `CXCallEndedReason`'s raw value: 1 failed, 2 remote ended,
  /// 3 unanswered, 4 answered elsewhere, 5 declined elsewhere.
  ///
  /// - Parameter asCaller: whether this device placed the call. Its user did not decline.
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
