/// A command to a shard: its sender, the place of the reply, and the question.
///
/// The driver has checked that `user` and `device` are the sender's. The core trusts these two, and nothing else.
public struct Command: Sendable, Equatable {
  /// Where the reply goes.
  public var session: SessionRef
  /// The device's own number for the command, echoed in the reply; 0 where no reply is wanted.
  public var request: UInt64
  public var user: UserKey
  public var device: DeviceID
  /// The user whose shard decides: the callee of a call, or the sender for all other commands.
  public var callee: UserKey
  public var body: Body
  /// In a signal: the last request of the same call and session before it that is not answered yet; 0: there is none. A
  /// shard that did not get that request ignores this one.
  public var after: UInt64 = 0
  /// In a command that may give the device the caller's side: when the session was attached, by the edge's clock; 0: not
  /// known.
  public var attachedAt = Timestamp(microseconds: 0)
  /// In an attach or a registration: how many registered devices the app allows a user; 0: the app has no limit
  /// of its own. The cluster's limit holds in any case.
  public var devicesPerUser: UInt32 = 0
  /// In a registration: whether the app has webhooks.
  public var hasWebhooks = false
  /// The sender's proof, which the driver checks.
  public var credential: Credential

  public init(
    session: SessionRef, request: UInt64, user: UserKey, device: DeviceID, callee: UserKey,
    body: Body, credential: Credential = .none
  ) {
    self.credential = credential
    self.session = session
    self.request = request
    self.user = user
    self.device = device
    self.callee = callee
    self.body = body
  }

  public var ticket: SessionTicket? {
    if case .ticket(let ticket) = credential { ticket } else { nil }
  }

  /// Large values are indirect: a command is copied several times on its way.
  public enum Body: Sendable, Equatable {
    /// The device's session begins.
    indirect case attach(Attach)
    /// The session ended. `graceful`: the device ended it; else its socket broke.
    case sessionClosed(graceful: Bool)
    /// The session that placed these calls broke.
    case callerGone([CallID])
    indirect case register(RegistrationRequest)
    /// Removes the registration of a device of the sender.
    case unregister(DeviceID)
    indirect case place(PlaceRequest)
    /// Deliveries arrived. There is no reply.
    case ack([Acknowledgement])
    case call(CallID, CallVerb)
    /// Asks one shard for the live calls that concern the sender's device. It goes to that shard, not to the shard of
    /// `callee`.
    case calls(shard: UInt32)
    /// A gateway reports the outcome of a push to `user` and `device`.
    indirect case pushReport(PushReport)
    /// Another device registers a push token of `user` and `device`.
    indirect case tokenTaken(TokenTaken)
    /// An edge reports the answered calls that the sender's device has placed.
    indirect case talking(Talking)
    /// A call gives way to one that crosses it.
    indirect case crossed(CrossedCall)
    /// A call gave way, and `device`, which had placed it, takes the call that crossed it.
    indirect case merge(MergeRequest)
    /// `device` has transferred a call to a device that it had asked in this call, which is over with that.
    indirect case replaced(ReplacedCall)
    /// About the history of `user`. A device of the user sends it, or the app's server, which only lists.
    case history(HistoryCommand)
    /// The shard of a call that was diverted to `user` asks for the user's devices.
    indirect case visit(VisitRequest)
    /// A device of `user`, or the app's server, reads or replaces the user's rules.
    indirect case rules(RulesRequest)
    /// A request of the app's server. `device` is empty.
    indirect case app(AppRequest)
  }
}

/// A push token is about to have a new owner.
public struct TokenTaken: Sendable, Equatable {
  public var fingerprint: String
  /// The user whose device registers it; of the same app.
  public var byUser: String
  public var byDevice: DeviceID
  public var at: Timestamp
  public init(fingerprint: String, byUser: String, byDevice: DeviceID, at: Timestamp) {
    self.fingerprint = fingerprint
    self.byUser = byUser
    self.byDevice = byDevice
    self.at = at
  }
}

/// The device that owns a push token, in the whole cluster.
public struct TokenOwner: Sendable, Hashable {
  public var user: UserKey
  public var device: DeviceID
  public var claimedAt: Timestamp
  public init(user: UserKey, device: DeviceID, claimedAt: Timestamp) {
    self.user = user
    self.device = device
    self.claimedAt = claimedAt
  }

  /// Whether both are the same device, whenever it claimed the token.
  public func isSame(as other: TokenOwner) -> Bool {
    user == other.user && device == other.device
  }
}

public struct Attach: Sendable, Equatable {
  /// The call that a push announced.
  public var forCall: CallID?
  public var deviceName: String
  /// The SDK's name and version, for operators.
  public var client: String
  /// The session was attached before. Either the edge announces it to a shard's new owner and wants no reply, or the
  /// device renews its token and waits for the reply.
  public var announce: Bool
  /// When the session was attached, by the edge's clock. An announced session does not replace a later session of the
  /// same device.
  public var attachedAt: Timestamp
  /// The device only places calls: calls to its user do not ring it.
  public var onlyPlaces: Bool
  /// For an announced session: the last report of its edge; nil: there was none.
  public var talking: Talking?
  /// The state of the user's ongoing calls that this session has shown; nil: its device does not want to see them.
  public var ongoing: OngoingMark?
  /// The state of the user's history that this session has shown; nil: its device does not want to see it.
  public var history: HistoryMark?
  /// The session's copy of the user's stored name; empty: none; nil: its edge is of a version without names.
  public var userName: String?

  public init(
    forCall: CallID? = nil, deviceName: String = "", client: String = "", announce: Bool = false,
    attachedAt: Timestamp = Timestamp(microseconds: 0), onlyPlaces: Bool = false,
    talking: Talking? = nil, ongoing: OngoingMark? = nil, history: HistoryMark? = nil,
    userName: String? = nil
  ) {
    self.userName = userName
    self.history = history
    self.ongoing = ongoing
    self.talking = talking
    self.onlyPlaces = onlyPlaces
    self.forCall = forCall
    self.deviceName = deviceName
    self.client = client
    self.announce = announce
    self.attachedAt = attachedAt
  }
}

/// The answered calls that a device has placed. They are in the shards of the callees, so edges report them to the
/// user's shard, where an app's users take no second call or see their calls on all devices.
public struct Talking: Sendable, Equatable {
  /// Grows with each report of a session, so that the shard recognises a late one.
  public var number: UInt64
  public var calls: [CallID]
  /// The details of each call, in the same order; empty where users do not see their calls.
  public var details: [Detail]
  public init(number: UInt64, calls: [CallID], details: [Detail] = []) {
    self.number = number
    self.calls = calls
    self.details = details
  }

  public struct Detail: Sendable, Equatable {
    /// The callee's user id.
    public var callee: String
    /// When the call was answered.
    public var since: Timestamp
    /// The user who has the other side; empty: the callee.
    public var peer: String
    public init(callee: String, since: Timestamp, peer: String = "") {
      self.callee = callee
      self.since = since
      self.peer = peer
    }

    public var other: String { peer.isEmpty ? callee : peer }
  }
}

public enum DeclineScope: UInt8, Sendable, CaseIterable {
  /// The user declines: the call ends.
  case everywhere = 0
  /// This device declines: it stops, and the others ring on.
  case here = 1
}

public struct Acknowledgement: Sendable, Equatable {
  public var call: CallID
  public var version: UInt64
  public init(call: CallID, version: UInt64) {
    self.call = call
    self.version = version
  }
}

public struct CustomHeader: Sendable, Hashable {
  public var name: String
  public var value: String
  public init(name: String, value: String) {
    self.name = name
    self.value = value
  }
}

/// The kind of a signal. One side of a call sends its signals to the other in one order.
public enum SignalKind: UInt8, Sendable, CaseIterable {
  case candidate = 0
  case description = 1
  /// An opaque message between the apps. Only in an answered call.
  case information = 2
  /// A client's reading of a kind that only later versions know. No command and no journal has it.
  case unknown = 255

  /// The kinds that devices send.
  public static let allCases: [SignalKind] = [.candidate, .description, .information]
}
