/// The answered calls that a user is in, on all devices of the user, as a whole: of several versions the newest
/// counts alone.
public struct OngoingCalls: Sendable, Equatable {
  /// As many are listed, those that go on for longest. Policy: leave the others out.
  public static let callsMax = 16

  /// Greater than that of each earlier state that the session was sent.
  public var version: UInt64
  /// Ordered by the time of their answers.
  public var calls: [OngoingCall]
  public init(version: UInt64, calls: [OngoingCall] = []) {
    self.version = version
    self.calls = calls
  }

  public var mark: OngoingMark { OngoingMark(version: version, showsCalls: !calls.isEmpty) }
}

/// One side of an answered call. A call between two devices of one user has two.
public struct OngoingCall: Sendable, Equatable {
  public var call: CallID
  /// The callee's user id: with `call` the call's address.
  public var callee: String
  /// Whether the user placed it; else it is to the user.
  public var isPlaced: Bool
  /// The device of the user that has the call.
  public var device: DeviceID
  public var deviceName: String
  /// The user at the other side.
  public var peer: String
  /// The display name of a peer that placed the call; empty: it has none.
  public var peerName: String
  /// When the call was answered.
  public var since: Timestamp
  public init(
    call: CallID, callee: String, isPlaced: Bool, device: DeviceID, deviceName: String = "",
    peer: String, peerName: String = "", since: Timestamp
  ) {
    self.call = call
    self.callee = callee
    self.isPlaced = isPlaced
    self.device = device
    self.deviceName = deviceName
    self.peer = peer
    self.peerName = peerName
    self.since = since
  }
}

/// The state of the user's calls that a session has shown to its device.
public struct OngoingMark: Sendable, Equatable {
  /// 0: nothing.
  public var version: UInt64
  public var showsCalls: Bool
  public init(version: UInt64 = 0, showsCalls: Bool = false) {
    self.version = version
    self.showsCalls = showsCalls
  }
}

extension Acknowledgement {
  /// Acknowledges the user's ongoing calls: no call has this id. Owners of earlier versions ignore it.
  public static let ongoingID = CallID(high: 0, low: 0)
}
