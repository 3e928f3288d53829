/// A request of an app's server to a shard, in the name of no user. The command's `user` and `callee` are the user that
/// it is about.
public enum AppRequest: Sendable, Equatable {
  /// The user's devices, and the live calls to it.
  case user
  /// The live calls of one shard that the user placed or that are to it. It goes to that shard, whoever `user` is.
  case calls(shard: UInt32)
  /// A call to the user.
  case call(CallID)
  /// Ends a call to the user.
  case end(CallID)
  /// Places a call to the user for another one.
  indirect case place(AppPlacing)
  /// Removes a device of the user: its registration and its session.
  case remove(DeviceID)
  /// The group of that name.
  case group
  /// Makes the user a group, or replaces its members; nil: it is none from now on.
  case setGroup(CallGroup?)
  /// The user's stored display name.
  case name
  /// Sets the user's display name; empty: removes it.
  case setName(String)
}

/// The app's server places a call between two users: the devices of the first one ring, and once one of them has answered,
/// those of the second one do.
public struct AppPlacing: Sendable, Equatable {
  /// As if a device of the second user placed it. It has no description, and `callerName` is the second user's.
  public var request: PlaceRequest
  /// The second one, whom the first one sees as the caller; a user of the same app.
  public var caller: String
  public init(_ request: PlaceRequest, caller: String) {
    self.request = request
    self.caller = caller
  }
}

/// A shard's answer to an app's server.
public enum AppReply: Sendable, Equatable {
  case user(AppUser)
  case calls([AppCall])
  case call(AppCall)
  case group(CallGroup)
  /// Empty: none is stored.
  case name(String)

  /// Calls that one answer lists. Policy: the newest.
  public static let callsMax = 100
}

/// A user as the app's server sees it.
public struct AppUser: Sendable, Equatable {
  public var user: String
  /// The display name that the app's server has set; empty: none.
  public var name = ""
  /// Those that are attached or registered.
  public var devices: [Device]
  /// The live calls to the user, the newest first. Those that it placed are in other users' shards.
  public var calls: [AppCall]
  public init(user: String, devices: [Device] = [], calls: [AppCall] = []) {
    self.user = user
    self.devices = devices
    self.calls = calls
  }

  public struct Device: Sendable, Equatable {
    public var device: DeviceID
    public var name: String
    /// The SDK's name and version.
    public var client: String
    /// Since when it has a session; nil: it has none.
    public var attachedAt: Timestamp?
    /// When its registration was stored last; nil: it has none.
    public var registeredAt: Timestamp?
    /// When it was known to be there last.
    public var seenAt: Timestamp?
    /// The providers of the pushes that make it ring, and of those that show it notices. Tokens are shown to nobody.
    public var voipPush: PushProvider
    public var alertPush: PushProvider
    public init(
      device: DeviceID, name: String = "", client: String = "", attachedAt: Timestamp? = nil,
      registeredAt: Timestamp? = nil, seenAt: Timestamp? = nil, voipPush: PushProvider = .none,
      alertPush: PushProvider = .none
    ) {
      self.device = device
      self.name = name
      self.client = client
      self.attachedAt = attachedAt
      self.registeredAt = registeredAt
      self.seenAt = seenAt
      self.voipPush = voipPush
      self.alertPush = alertPush
    }
  }
}

/// A call as the app's server sees it.
public struct AppCall: Sendable, Equatable {
  /// As the caller's device sees it; `missed` is the callee's.
  public var state: CallState
  public var caller: Party
  public var placedAt: Timestamp
  /// The device that answered, also after the end.
  public var answeredBy: Party?
  /// The app's server ended it.
  public var endedByApp: Bool
  public init(
    state: CallState, caller: Party, placedAt: Timestamp, answeredBy: Party? = nil,
    endedByApp: Bool = false
  ) {
    self.state = state
    self.caller = caller
    self.placedAt = placedAt
    self.answeredBy = answeredBy
    self.endedByApp = endedByApp
  }
}

extension Sequence<AppCall> {
  /// The newest first; those of the same time by id. No more than an answer lists.
  public var newestForApp: [AppCall] {
    let sorted = sorted { one, other in
      if one.placedAt != other.placedAt { return one.placedAt > other.placedAt }
      let (id, otherID) = (one.state.call, other.state.call)
      return (id.high, id.low) < (otherID.high, otherID.low)
    }
    return Array(sorted.prefix(AppReply.callsMax))
  }
}
