/// A device and its user, as a party of a call.
public struct Party: Sendable, Hashable {
  public var user: String
  public var device: DeviceID
  public var deviceName: String
  /// The user's display name, of the caller only; empty: it has none.
  public var name: String
  public init(user: String, device: DeviceID, deviceName: String = "", name: String = "") {
    self.user = user
    self.device = device
    self.deviceName = deviceName
    self.name = name
  }

  /// Whether it is this device of this user.
  func isDevice(_ device: DeviceID, of user: String) -> Bool {
    self.device == device && self.user.hasBytes(of: user)
  }

  /// The name to show for the user.
  public var shownName: String { name.isEmpty ? user : name }
}

/// A message to a device about a call. Retransmitted until the device acknowledges its version.
public struct Delivery: Sendable, Equatable {
  public var call: CallID
  /// The callee's user id: with `call` the call's address.
  public var callee: String
  /// Greater than that of every earlier delivery of this call to this device.
  public var version: UInt64
  public var at: Timestamp
  public var event: Event
  /// The version of the delivery before it that is not acknowledged; 0: there is none. A device that did not
  /// get that one ignores this one: both are retransmitted.
  public var after: UInt64 = 0

  public init(call: CallID, callee: String, version: UInt64, at: Timestamp, event: Event) {
    self.call = call
    self.callee = callee
    self.version = version
    self.at = at
    self.event = event
  }

  /// Indirect: a delivery is copied several times on its way.
  public indirect enum Event: Sendable, Equatable {
    /// To a callee's device: ring.
    case invite(Invite)
    /// To the caller: a device alerts its user.
    case ringing(by: Party)
    /// To the caller: the call was answered. To the winner: it has the call. Where two calls crossed, the winner did
    /// not answer itself.
    case answered(Answered)
    /// To any side: it is over for this device.
    case stop(Stop)
    /// A description, candidate or information of the other side.
    case signal(Signal)
    /// The other side's user goes on with another device.
    case moved(Moved)
    /// To the side that transfers the call: a device rings, or the transfer has failed.
    case transfer(TransferNews)
    /// To the caller and to devices that ring on: the call has gone on to others, and rings until a later time than
    /// before.
    case ringsUntil(Timestamp)

    var isSignal: Bool { if case .signal = self { true } else { false } }

    var isRingsUntil: Bool { if case .ringsUntil = self { true } else { false } }

    /// Whether it makes a `ringsUntil` void that waits for its acknowledgement.
    var voidsRingsUntil: Bool {
      switch self {
      case .ringsUntil, .answered, .stop: true
      case .invite, .ringing, .signal, .moved, .transfer: false
      }
    }

    /// Whether it shows an act of the other side in an answered call.
    var isOfOtherSide: Bool {
      switch self {
      case .moved, .transfer: true
      default: isSignal
      }
    }
  }
}

public struct Invite: Sendable, Equatable {
  public var caller: Party
  /// When ringing ends by itself, by the cluster's clock.
  public var deadline: Timestamp
  public var video: Bool
  public var description: String
  public var headers: [CustomHeader]
  /// As in the caller's place.
  public var pushData: String
  /// The signals that the caller has sent since, in order.
  public var signals: [Signal]
  /// The user is in an answered call: this is a second one.
  public var isSecondCall: Bool
  /// The user from whom the call was diverted to this one; empty: it was placed to this one.
  public var divertedBy: String
  /// The party that hands over an answered call, and has it until it is answered here. `caller` is then the other side,
  /// which stays, whichever side placed the call; nil: an ordinary call.
  public var transferredBy: Party?
  /// The app's server placed the call, and `caller` has answered it and waits: this user is the other one. The device may
  /// have rung for the first side before.
  public var isSecondSide = false
  /// For such a call, if this device was asked before: the call in which it was asked. It answers at once, without
  /// ringing.
  public var consulted: ConsultedCall?
  /// This device's own call, which crossed this one and gave way to it: the device has this call, and need not answer.
  /// The call may have stopped ringing here before.
  public var merged: CallID?
  /// Whether it is for the device also where the call was over there.
  public var ringsAnew: Bool { transferredBy != nil || isSecondSide || merged != nil }

  public init(
    caller: Party, deadline: Timestamp, video: Bool = false, description: String = "",
    headers: [CustomHeader] = [], pushData: String = "", signals: [Signal] = [],
    isSecondCall: Bool = false, divertedBy: String = ""
  ) {
    self.divertedBy = divertedBy
    self.isSecondCall = isSecondCall
    self.pushData = pushData
    self.caller = caller
    self.deadline = deadline
    self.video = video
    self.description = description
    self.headers = headers
    self.signals = signals
  }
}

public struct Answered: Sendable, Equatable {
  public var by: Party
  public var description: String
  /// The signals that the winner sent before it answered, in order.
  public var signals: [Signal]
  public init(by: Party, description: String = "", signals: [Signal] = []) {
    self.by = by
    self.description = description
    self.signals = signals
  }
}

public struct Stop: Sendable, Equatable {
  public var reason: EndReason
  /// The party that caused it; nil: no party did (a timeout).
  public var by: Party?
  /// For the callee: this is a missed call.
  public var missed: Bool
  /// The call to which this one gave way: a crossing one (`glare`), or one that was `transferred`.
  public var survivor: CallID?
  /// To the caller, of a call that ended as unreachable: why.
  public var unreachable: UnreachableCause?
  public init(
    reason: EndReason, by: Party? = nil, missed: Bool = false, survivor: CallID? = nil,
    unreachable: UnreachableCause? = nil
  ) {
    self.unreachable = unreachable
    self.reason = reason
    self.by = by
    self.missed = missed
    self.survivor = survivor
  }
}

/// A session description, an ICE candidate or an information, opaque to the cluster.
public struct Signal: Sendable, Equatable {
  /// Grows with each signal of a call and sending device, so that a repetition is recognised. Counts from
  /// 1; jumps when the shard gets a new owner.
  public var index: UInt64
  public var kind: SignalKind
  public var body: String
  /// The sender's number for the command, so that a repetition is recognised; 0: not known. Only the
  /// shard and its journal have it.
  public var request: UInt64 = 0
  public init(index: UInt64, kind: SignalKind, body: String, request: UInt64 = 0) {
    self.index = index
    self.kind = kind
    self.body = body
    self.request = request
  }
}

/// A call as one device may see it.
public struct CallState: Sendable, Equatable {
  public var call: CallID
  public var callee: String
  public var phase: CallPhase
  public var version: UInt64
  /// Set when `phase` is `ended`: for this device, so "answered elsewhere" while the call goes on.
  public var reason: EndReason?
  /// The winner, or who ended the call.
  public var by: Party?
  public var at: Timestamp
  /// While it rings.
  public var deadline: Timestamp?
  public var missed: Bool
  /// The call to which this one gave way: a crossing one (`glare`), or one that was `transferred`.
  public var survivor: CallID?
  /// For the caller, of a call that ended as unreachable: why.
  public var unreachable: UnreachableCause?
  public init(
    call: CallID, callee: String, phase: CallPhase, version: UInt64 = 0, reason: EndReason? = nil,
    by: Party? = nil, at: Timestamp = Timestamp(microseconds: 0), deadline: Timestamp? = nil,
    missed: Bool = false, survivor: CallID? = nil, unreachable: UnreachableCause? = nil
  ) {
    self.survivor = survivor
    self.unreachable = unreachable
    self.call = call
    self.callee = callee
    self.phase = phase
    self.version = version
    self.reason = reason
    self.by = by
    self.at = at
    self.deadline = deadline
    self.missed = missed
  }
}

/// The reply to a command. Large values are indirect, since a reply is copied several times on its way.
public enum Reply: Sendable, Equatable {
  case error(CallError)
  case done
  /// With the ticket that the session's commands carry from now on, and the user's calls, if the device is to see them.
  indirect case attached(
    forCall: CallState?, ticket: SessionTicket? = nil, ongoing: OngoingCalls? = nil)
  /// With the capabilities in the registration, declared or derived.
  case registered(expiresAt: Timestamp, removed: [DeviceID], capabilities: PushCapabilities = [])
  indirect case call(CallState)
  indirect case answer(won: Bool, CallState)
  case calls(LiveCalls)
  indirect case history(HistoryPage)
  /// The user's; empty ones where it has none.
  indirect case rules(UserRules)
  /// To the app's server.
  indirect case app(AppReply)
}

/// The live calls that concern one device: those of one shard, or of all.
public struct LiveCalls: Sendable, Equatable {
  /// Placed by the device.
  public var placed: [CallState]
  /// Calls to its user that are not over for the device.
  public var received: [CallState]
  public init(placed: [CallState] = [], received: [CallState] = []) {
    self.placed = placed
    self.received = received
  }
}

/// A message to a session that is not about a call.
public struct Notice: Sendable, Equatable {
  public enum Kind: UInt8, Sendable, CaseIterable {
    /// A kind of a later version, as an older client reads it.
    case unknown = 0
    case sessionReplaced = 1
    case deviceRemoved = 2
    case goAway = 3
    /// Another device registered this device's push token.
    case tokenTaken = 4
    /// The session ends soon, with its token, unless the device renews it.
    case tokenExpires = 5
    /// Another edge is nearer to the user's calls: see `nearer`.
    case nearer = 6

    public var name: String { "\(self)" }
  }
  public var kind: Kind
  public var message: String
  public var retryAfterMilliseconds: UInt32
  /// The address of the nearer edge.
  public var nearer: String
  public init(
    kind: Kind, message: String, retryAfterMilliseconds: UInt32 = 0, nearer: String = ""
  ) {
    self.kind = kind
    self.message = message
    self.retryAfterMilliseconds = retryAfterMilliseconds
    self.nearer = nearer
  }
}
