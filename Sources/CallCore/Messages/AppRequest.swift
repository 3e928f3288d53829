/// A request of an app's server to a shard, in the name of no user. The command's `user` and `callee` are the user that
/// it is about.
public enum AppRequest: Sendable, Equatable {
  /// The user's devices, and the live calls to it.
  case user
  /// The live calls of one shard that the user placed or that are to it. It goes to that shard, whoever `user` is.
  case calls(shard: UInt32)
  /// Live calls of the app in one shard. It goes to that shard, and is about no user.
  case live(LiveCallsQuery)
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
  /// The only device of the first user that rings; nil: all of them do.
  public var device: DeviceID?
  public init(_ request: PlaceRequest, caller: String, device: DeviceID? = nil) {
    self.request = request
    self.caller = caller
    self.device = device
  }
}

/// A page of an app's live calls, as one shard is asked for its part.
public struct LiveCallsQuery: Sendable, Equatable {
  public var shard: UInt32
  /// Only calls behind this one in the list; nil: from the newest one on.
  public var before: AppCallPlace?
  /// The most calls that the shard returns.
  public var limit: UInt32
  public init(shard: UInt32 = 0, before: AppCallPlace? = nil, limit: UInt32) {
    self.shard = shard
    self.before = before
    self.limit = limit
  }

  /// How many calls an app's server may ask for. A shard is asked for one more, by which the edge knows whether there
  /// are further ones.
  public static let limits: ClosedRange<UInt32> = 1...UInt32(AppReply.callsMax)
}

/// A call's place in a list for the app's server: the newest call comes first. An app's server gets it as text that
/// means nothing to it.
public struct AppCallPlace: Sendable, Comparable {
  /// Milliseconds since 1970, as apps' servers get times.
  public var placedAtMs: Int64
  public var call: CallID
  /// Two users may have calls of one id.
  public var callee: String
  public init(placedAtMs: Int64, call: CallID, callee: String) {
    self.placedAtMs = placedAtMs
    self.call = call
    self.callee = callee
  }

  /// - Returns: nil for a text that is no place's.
  public init?(text: String) {
    let parts = text.split(separator: ".", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0].utf8.count <= 13, let time = Int64(parts[0], radix: 36),
      time >= 0, let call = CallID(String(parts[1])), IdentifierRules.isUser(String(parts[2]))
    else { return nil }
    self.init(placedAtMs: time, call: call, callee: String(parts[2]))
  }

  public var text: String { "\(String(placedAtMs, radix: 36)).\(call).\(callee)" }

  public static func < (one: Self, other: Self) -> Bool {
    if one.placedAtMs != other.placedAtMs { return one.placedAtMs > other.placedAtMs }
    let (id, otherID) = ((one.call.high, one.call.low), (other.call.high, other.call.low))
    guard id == otherID else { return id < otherID }
    return one.callee.utf8.lexicographicallyPrecedes(other.callee.utf8)
  }

  public static func == (one: Self, other: Self) -> Bool { !(one < other) && !(other < one) }
}

/// A shard's answer to an app's server.
public enum AppReply: Sendable, Equatable {
  case user(AppUser)
  case calls(AppCalls)
  case call(AppCall)
  case group(CallGroup)
  /// Empty: none is stored.
  case name(String)

  /// Calls that one answer lists. Policy: the newest.
  public static let callsMax = 100
}

/// A list of calls for an app's server.
public struct AppCalls: Sendable, Equatable {
  /// The newest first.
  public var calls: [AppCall]
  /// Where older ones begin: the next query's `before`; nil: there are none, or the list has no pages.
  public var next: AppCallPlace?
  public init(_ calls: [AppCall] = [], next: AppCallPlace? = nil) {
    self.calls = calls
    self.next = next
  }
}

/// A user as the app's server sees it.
public struct AppUser: Sendable, Equatable {
  public var user: String
  /// The display name that the app's server has set; empty: none.
  public var name = ""
  /// The devices that are attached or registered.
  public var devices: [Device]
  /// The live calls to the user, the newest first. The calls that it placed are in other users' shards.
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
    /// The providers of the pushes that make it ring and of those that show it notices. The tokens are not shown.
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

extension AppCall {
  public var place: AppCallPlace {
    AppCallPlace(placedAtMs: placedAt.milliseconds, call: state.call, callee: state.callee)
  }
}

extension Sequence<AppCall> {
  /// The newest calls, the newest first.
  public func newest(_ countMax: Int = AppReply.callsMax) -> [AppCall] {
    Array(sorted { $0.place < $1.place }.prefix(countMax))
  }
}
