/// A new call: the setup that its caller's device sent, and what the device's edge added.
public struct PlaceRequest: Sendable, Equatable {
  public var setup: CallSetup
  /// The name of the caller's device, as in its session.
  public var deviceName: String
  /// The caller's display name, as in the session's token, as stored, or as the app's hook gives it; empty: none.
  public var callerName: String
  /// When the edge received it, by the edge's clock; nil: not known. For a metric only.
  public var receivedAt: Timestamp?
  /// Whether the callee is busy while it is in an answered call; nil: what the cluster says.
  public var busyWhileInCall: Bool?
  /// Users whom the app's hook has named to be rung in place of the callee; empty: none.
  public var forward: [String] = []
  /// The app lets a call that goes on to others ring longer than its caller has chosen.
  public var ringsAnew = false
  /// The information that the caller's app wants about the call.
  public var subscriptions: Subscriptions

  public init(
    call: CallID, ringTimeoutSeconds: UInt32 = 0, description: String = "",
    headers: [CustomHeader] = [], video: Bool = false, deviceName: String = "",
    callerName: String = "", receivedAt: Timestamp? = nil, pushData: String = "",
    busyWhileInCall: Bool? = nil, subscriptions: Subscriptions = []
  ) {
    setup = CallSetup(
      call: call, ringTimeoutSeconds: ringTimeoutSeconds, description: description,
      headers: headers, video: video, pushData: pushData)
    self.deviceName = deviceName
    self.callerName = callerName
    self.receivedAt = receivedAt
    self.busyWhileInCall = busyWhileInCall
    self.subscriptions = subscriptions
  }

  public var call: CallID { setup.call }
}

/// The caller's part of a `PlaceRequest`. It stays the same when the request is repeated, at whichever edge.
public struct CallSetup: Sendable, Equatable {
  public var call: CallID
  /// 0 stands for the app's default.
  public var ringTimeoutSeconds: UInt32
  public var description: String
  public var headers: [CustomHeader]
  public var video: Bool
  /// Data that the caller's app gives to the callee's apps, in pushes that ring and in the invite; opaque.
  public var pushData: String

  /// Tells a repeated `place` from another call with the same id. Journals hold the number, and a request may be
  /// repeated to another version, so it stays as it is: a new field counts only where it is not empty.
  /// - Parameter only: the only device that rings.
  func fingerprint(_ command: Command, to only: DeviceID?) -> UInt64 {
    var hash = FNV1a()
    hash.add(command.user.app, end: 0xff)
    hash.add(command.user.user, end: 0xff)
    hash.add(command.device.text, end: 0xff)
    hash.add(command.callee.user, end: 0xff)
    hash.add(description, end: 0xff)
    for header in headers {
      hash.add(header.name, end: 0xff)
      hash.add(header.value, end: 0xff)
    }
    if !pushData.isEmpty { hash.add(pushData, end: 0xfe) }
    if let only { hash.add(only.text, end: 0xfd) }
    return ShardHash.mix(hash.value ^ UInt64(ringTimeoutSeconds) << 1 ^ (video ? 1 : 0))
  }
}
