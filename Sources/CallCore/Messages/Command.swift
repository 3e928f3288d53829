/// A command to a shard: who sent it, where the reply goes, and what is asked.
///
/// The driver has checked that `user` and `device` are the sender's. The core trusts these two, and nothing else.
public struct Command: Sendable, Equatable {
  /// Where the reply goes.
  public var session: SessionRef
  /// The device's own number for the command, echoed in the reply; 0 where no reply is wanted.
  public var request: UInt64
  public var user: UserKey
  public var device: DeviceID
  /// The user whose shard decides: the callee for calls that the sender placed, the sender for all else.
  public var callee: UserKey
  public var body: Body
  /// In a signal: the request before it, of the same call and session, that is not
  /// answered yet; 0: there is none. A shard that did not get that one ignores this one.
  public var after: UInt64 = 0
  /// In an attach or a registration: how many registered devices the app allows a user; 0: the app has no limit
  /// of its own. The cluster's limit holds in any case.
  public var devicesPerUser: UInt32 = 0
  /// In a registration: whether the app has webhooks.
  public var hasWebhooks = false
  /// Checked by the driver.
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

  /// The ticket of its session.
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
    /// Deliveries arrived. Has no reply.
    case ack([Acknowledgement])
    case call(CallID, CallVerb)
    /// Asks one shard for the live calls that concern the sender's device. It goes to that shard, whoever
    /// `callee` is.
    case calls(shard: UInt32)
    /// A gateway reports what became of a push to `user` and `device`.
    indirect case pushReport(PushReport)
    /// Another device registers a push token that `user` and `device` had.
    indirect case tokenTaken(TokenTaken)
    /// The answered calls that the sender's device has placed.
    indirect case talking(Talking)
    /// A call gives way to one that crosses it.
    indirect case crossed(CrossedCall)
    /// A call gave way, and `device`, which had placed it, takes the one that crossed it.
    indirect case merge(MergeRequest)
    /// A call in which `device` asked another one before it transferred a call to it is over.
    indirect case replaced(ReplacedCall)
    /// About the history of `user`, whose device asks, or for whom the app's server does. The latter only lists it.
    case history(HistoryCommand)
    /// The shard of a call that was diverted to `user` asks for the user's devices.
    indirect case visit(VisitRequest)
    /// Reads or replaces the rules of `user`, who asks itself, or for whom the app's server does.
    indirect case rules(RulesRequest)
    /// A request of the app's server. `device` is empty.
    indirect case app(AppRequest)
  }
}

/// A push token has a new owner, or is about to.
public struct TokenTaken: Sendable, Equatable {
  public var fingerprint: String
  /// Who registers it now; a user of the same app.
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

  /// Whether it is this device, whenever it claimed the token.
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
  /// The session was attached before. Either the edge announces it to a shard's new owner, without a reply, or
  /// the device renews its token and waits for the reply.
  public var announce: Bool
  /// When the session was attached, by the edge's clock. An announced session does not replace one of the
  /// same device that was attached later.
  public var attachedAt: Timestamp
  /// The device places calls, and is not rung by those to its user.
  public var onlyPlaces: Bool
  /// For an announced session: the last report of its edge; nil: there was none.
  public var talking: Talking?
  /// For a device that is to see which calls its user is in: the state that this session has shown; nil: it is not to.
  public var ongoing: OngoingMark?
  /// For a device that is to see the state of its user's history: the state that this session has shown; nil: it is not
  /// to.
  public var history: HistoryMark?
  /// The user's stored name as the session has it; empty: none; nil: its edge is of a version without names.
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

/// The answered calls that a device has placed. The user's shard does not have them: they are in the shards of the
/// callees. Edges report them where an app's users take no second call, or see their calls on all devices.
public struct Talking: Sendable, Equatable {
  /// Grows with each report of a session, so that a late one is recognised.
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
    /// The user who has the other side, where that is not the callee; else empty.
    public var peer: String
    public init(callee: String, since: Timestamp, peer: String = "") {
      self.callee = callee
      self.since = since
      self.peer = peer
    }

    /// The user who has the other side.
    public var other: String { peer.isEmpty ? callee : peer }
  }
}

public enum DeclineScope: UInt8, Sendable, CaseIterable {
  /// For the user: the call ends.
  case everywhere = 0
  /// For this device: it stops, the others ring on.
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
  /// A message of the apps, for which the cluster has no word. Only in an answered call.
  case information = 2
  /// A kind of a later version, as an older client reads it. No command and no journal has it.
  case unknown = 255

  /// Those that devices send.
  public static let allCases: [SignalKind] = [.candidate, .description, .information]
}
