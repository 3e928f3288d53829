public import CallCore

/// A call as devices name it. An empty callee means the sender's own user.
public struct CallAddress: Hashable, Sendable {
  public var callee: String
  public var call: CallID
  public init(callee: String = "", call: CallID) {
    self.callee = callee
    self.call = call
  }
}

/// A frame of a device: one command, with the device's own number for it.
public struct ClientFrame: Sendable, Equatable {
  public var id: UInt64
  public var command: ClientCommand
  public init(id: UInt64, command: ClientCommand) {
    self.id = id
    self.command = command
  }
}

/// Cases with large values are indirect.
public enum ClientCommand: Sendable, Equatable {
  indirect case attach(AttachRequest)
  case detach
  /// A new token for the session, of the same user.
  case renew(token: String)
  indirect case register(RegistrationRequest)
  /// nil: this device.
  case unregister(DeviceID?)
  /// The call id stands in both; the address's counts.
  indirect case place(CallAddress, PlaceRequest)
  case ack([AckItem])
  case call(CallAddress, CallVerb)
  /// Asks whether the connection lives.
  case ping
  /// Asks for the live calls that concern this device.
  case calls
  /// About the user's history.
  case history(HistoryCommand)
  /// The rules of the device's user.
  indirect case rules(RulesRequest)
}

extension ClientCommand {
  /// The call that the command is about; nil: none.
  package var address: CallAddress? {
    switch self {
    case .place(let address, _), .call(let address, _): address
    case .attach, .detach, .register, .unregister, .ack, .ping, .calls, .renew, .history, .rules:
      nil
    }
  }
}

public struct AttachRequest: Sendable, Equatable {
  /// Bearer JWT; empty when the Authorization header carried it.
  public var token: String
  /// Empty when the token names it.
  public var device: String
  public var forCall: CallID?
  public var deviceName: String
  public var client: String
  /// The device wants to know which edge is nearer to its user's calls.
  public var wantsNearer: Bool
  /// The device places calls, and is not rung by those to its user.
  public var onlyPlaces: Bool
  /// The device wants to see which calls its user is in.
  public var wantsOngoing: Bool
  /// The device wants to see when its user's history changes.
  public var wantsHistory: Bool
  /// The device wants credentials for the TURN servers.
  public var wantsRelays: Bool
  public init(
    token: String = "", device: String = "", forCall: CallID? = nil, deviceName: String = "",
    client: String = "", wantsNearer: Bool = false, onlyPlaces: Bool = false,
    wantsOngoing: Bool = false, wantsHistory: Bool = false, wantsRelays: Bool = false
  ) {
    self.wantsRelays = wantsRelays
    self.wantsHistory = wantsHistory
    self.wantsOngoing = wantsOngoing
    self.onlyPlaces = onlyPlaces
    self.token = token
    self.device = device
    self.forCall = forCall
    self.deviceName = deviceName
    self.client = client
    self.wantsNearer = wantsNearer
  }
}

public struct AckItem: Sendable, Equatable {
  /// With `Acknowledgement.ongoingID`: the item is about the user's ongoing calls.
  public var call: CallAddress
  public var version: UInt64
  public init(call: CallAddress, version: UInt64) {
    self.call = call
    self.version = version
  }

  /// Acknowledges the user's ongoing calls.
  public init(ongoing version: UInt64) {
    self.init(call: CallAddress(call: Acknowledgement.ongoingID), version: version)
  }
}

/// A frame of an edge to a device.
public enum ServerFrame: Sendable, Equatable {
  /// `id` is 0 where a frame could not be read far enough to know it.
  case reply(id: UInt64, ServerReply)
  case delivery(Delivery)
  case notice(Notice)
  /// The calls that the device's user is in.
  indirect case ongoing(OngoingCalls)
  /// The user's history has changed.
  case history(HistoryState)
  /// New credentials for the TURN servers, in place of those that will expire.
  indirect case relays(RelayCredentials)
}

/// A reply as the device sees it: the shard's, with what the edge adds to it. What is large is indirect.
public enum ServerReply: Sendable, Equatable {
  case error(CallError)
  case done
  indirect case attached(AttachedInfo)
  indirect case registered(RegisteredInfo)
  indirect case call(CallState)
  indirect case answer(won: Bool, CallState)
  case calls(LiveCalls)
  indirect case history(HistoryPage)
  indirect case rules(UserRules)
}

public struct RegisteredInfo: Sendable, Equatable {
  public var device: DeviceID
  /// Unless the device is seen before.
  public var expiresAt: Timestamp
  /// Devices that gave way to this one.
  public var removed: [DeviceID]
  /// The registration's capabilities, declared or derived.
  public var capabilities: PushCapabilities
  /// As it is kept: cut and cleaned where it did not fit.
  public var deviceName: String
  public init(
    device: DeviceID, expiresAt: Timestamp, removed: [DeviceID] = [],
    capabilities: PushCapabilities = [], deviceName: String = ""
  ) {
    self.deviceName = deviceName
    self.device = device
    self.expiresAt = expiresAt
    self.removed = removed
    self.capabilities = capabilities
  }
}

public struct AttachedInfo: Sendable, Equatable {
  /// Opaque; names the session in logs.
  public var session: String
  public var user: String
  public var device: DeviceID
  public var pingSeconds: UInt32
  public var serverTime: Timestamp
  public var forCall: CallState?
  /// The address of an edge that is nearer to the user's calls; empty: this one is as good.
  public var nearer: String
  /// The calls that the user is in; nil: the device did not ask, or its app does not have that.
  public var ongoing: OngoingCalls?
  /// Credentials for the TURN servers; nil: the device did not ask, or the edge has none.
  public var relays: RelayCredentials?
  /// As it is kept: cut and cleaned where it did not fit.
  public var deviceName: String
  public init(
    session: String, user: String, device: DeviceID, pingSeconds: UInt32, serverTime: Timestamp,
    forCall: CallState? = nil, nearer: String = "", ongoing: OngoingCalls? = nil,
    relays: RelayCredentials? = nil, deviceName: String = ""
  ) {
    self.deviceName = deviceName
    self.ongoing = ongoing
    self.relays = relays
    self.session = session
    self.user = user
    self.device = device
    self.pingSeconds = pingSeconds
    self.serverTime = serverTime
    self.forCall = forCall
    self.nearer = nearer
  }
}

/// The data that a device needs to use the TURN servers for a while.
public struct RelayCredentials: Sendable, Equatable {
  /// `turn:` and `turns:` URLs.
  public var urls: [String]
  public var username: String
  public var password: String
  public var expiresAt: Timestamp
  public init(urls: [String], username: String, password: String, expiresAt: Timestamp) {
    self.urls = urls
    self.username = username
    self.password = password
    self.expiresAt = expiresAt
  }
}
