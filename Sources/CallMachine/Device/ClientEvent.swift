public import CallCore
public import CallWire

/// An event of a device's session or of its calls.
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
  /// The cluster refused this device for its token or its id, another session replaced this one, or the device was
  /// removed (`unknownDevice`). The device makes no further attempt.
  case refused(CallError)
  /// A command's reply. An error that asks for a retry is reported after the last attempt only.
  case replied(request: UInt64, ClientCommand, ServerReply)
  /// A command that no attempt got a reply to.
  case gaveUp(request: UInt64, ClientCommand)
  /// Something happened to a call.
  case call(CallID, CallEvent)
  /// The answered calls that the user is in now, on all devices, this one included. Comes whenever they change, to who
  /// set `DeviceConfiguration.wantsOngoing`.
  case ongoing([OngoingCall])
  /// The user's history has changed: a call was added, or the user has read it, here or elsewhere. Comes once after
  /// each change, and after the first attach, to who set `DeviceConfiguration.wantsHistory`.
  case history(HistoryState)
  /// New credentials for the TURN servers, for peer connections from now on.
  case relays(RelayCredentials)
  /// The cluster informs the app, such as of a push token that another device took.
  case notice(Notice)
}

/// An event of one call, as one device sees it. Each event comes once, and none after `stopped`.
public enum CallEvent: Sendable, Equatable {
  /// A call to this user: ring.
  case invited(Invite)
  /// To the caller: a device of the callee alerts its user.
  case ringing(by: Party)
  /// To the caller: a device answered.
  case answered(Answered)
  /// To the answering device: it won the call. To one that pulled: it has the call now.
  case won(CallState)
  /// The call is over for this device.
  case stopped(Stop)
  /// A session description or ICE candidate of the other side.
  case signal(Signal)
  /// The other side's user goes on with another device, whose description this is; or another user does, to whom the
  /// call was transferred.
  case moved(Moved)
  /// To the device that transfers the call: another user's device rings, or no one takes the call and this device has
  /// it as before.
  case transfer(TransferNews)
  /// The call has gone on to others, and rings until a later time than before, by the cluster's clock.
  case ringsUntil(Timestamp)
}

extension Stop {
  /// The raw value of CallKit's `CXCallEndedReason`: 1 failed, 2 remote ended, 3 unanswered, 4 answered
  /// elsewhere, 5 declined elsewhere.
  ///
  /// - Parameter asCaller: whether this device placed the call, so that its own user did not decline.
  public func callKitReason(asCaller: Bool = false) -> Int {
    switch reason {
    case .answeredElsewhere, .glare, .moved: 4
    case .declined: asCaller ? 2 : 5
    case .cancelled, .hungUp, .transferred: 2
    case .unanswered, .busy: 3
    case .unreachable, .failed: 1
    }
  }
}

/// The state of a call for a device that a push woke and that attached for that call.
public enum WakeAnswer: Sendable, Equatable {
  /// It still rings until the given time, by the cluster's clock. The invite follows.
  case rings(until: Timestamp?)
  /// This device itself answered the call before.
  case answeredHere
  /// Another device of this user answered.
  case answeredElsewhere(by: Party?)
  /// A device declined for the user, or this one for itself.
  case declined(by: Party?)
  /// The caller cancelled.
  case cancelled(by: Party?)
  /// The ring timeout passed.
  case unanswered
  /// The call never existed, is not this user's, or ended too long ago to be remembered.
  case unknown
  /// It ended in another way.
  case ended(EndReason, by: Party?)
}

extension CallState {
  /// This state for a device that was woken for the call.
  public var wakeAnswer: WakeAnswer {
    switch phase {
    case .unknown: .unknown
    case .placed, .ringing: .rings(until: deadline)
    case .answered: .answeredHere
    case .ended:
      switch reason {
      case .answeredElsewhere: .answeredElsewhere(by: by)
      case .declined: .declined(by: by)
      case .cancelled: .cancelled(by: by)
      case .unanswered: .unanswered
      case .busy, .unreachable, .hungUp, .failed, .glare, .moved, .transferred:
        .ended(reason ?? .failed, by: by)
      case nil: .unknown
      }
    }
  }
}
