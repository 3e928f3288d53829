internal import CallCore
internal import CallWire

extension Device {
  /// An event of a device or of its calls.
  public enum Event: Sendable {
    /// The device is attached, and can be rung.
    case attached(Session)
    /// The connection broke or could not be made. The device comes back by itself.
    case detached(retryIn: Duration)
    /// The server of an edge at `wss://` is not trusted; the text says why. `detached` follows.
    case notTrusted(String)
    /// No further attempt is made: the token or the id was refused, another copy has this device, or it was removed
    /// (`replaced`). Calls of this device have ended.
    case refused(CallmeshError)
    /// `getToken` failed. It is called again.
    case tokenFailed(CallmeshError)
    /// A call rings.
    case incoming(Call)
    /// The device has a call that did not ring here: pulled, or answered in a former run of the app. One of a former run
    /// ends after 60 s (`resumeGraceAnswered`) without a command of the app, such as `connected` or `hangUp`.
    case taken(Call)
    /// The user has answered a call elsewhere, in a notification or in CallKit, that rings here.
    case wanted(Call)
    /// Something happened to a call.
    case call(Call, Call.Event)
    /// A call is over, also one that ended while the device was away and never rang here.
    case ended(Call)
    /// The calls that the user is in now, on all devices.
    case ongoing([OngoingCall])
    /// The history has changed.
    case history(HistoryState)
    /// ``Device/iceServers`` has new credentials, in place of those that will expire.
    case relays
    /// A notice of the edge about the session. `tokenTaken` and `deviceRemoved` mean that pushes no longer reach this
    /// device; the device follows the others by itself.
    case notice(Notice)
  }

  /// TURN servers and what they ask for, with the names of WebRTC's `RTCIceServer`.
  public struct IceServer: Sendable, Hashable {
    public var urls: [String]
    public var username: String
    public var credential: String
  }

  /// A session with an edge.
  public struct Session: Sendable, Hashable {
    /// The session's name in the cluster's logs.
    public var session: String
    public var user: String
    public var device: String
    /// The cluster's time.
    public var serverTime: Timestamp
    /// Whether the device was attached before.
    public var isAgain: Bool

    init(_ info: AttachedInfo, isAgain: Bool) {
      (session, user, device) = (info.session, info.user, info.device.text)
      (serverTime, self.isAgain) = (info.serverTime, isAgain)
    }
  }
}
