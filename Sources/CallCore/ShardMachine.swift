/// One shard: its users' sessions and registrations, and their calls. Does no I/O, reads no clock.
public struct ShardMachine: Sendable {
  public let shard: Int
  public let epoch: UInt64
  public let limits: CallLimits

  public init(shard: Int, epoch: UInt64, limits: CallLimits) {
    self.shard = shard
    self.epoch = epoch
    self.limits = limits
  }

  /// Takes in what the store has, before the first command.
  public mutating func restore(
    checkpoint: [JournalEntry], registrations: [Registration], now: Timestamp
  ) {}

  /// Replays one journal record, in order, after `restore`.
  public mutating func replay(_ entries: [JournalEntry], now: Timestamp) {}

  /// After all edges have announced their sessions: tells every device the present state of its
  /// calls and begins to keep time.
  public mutating func begin(now: Timestamp, into outcome: inout Outcome) {}

  public mutating func handle(_ command: Command, now: Timestamp, into outcome: inout Outcome) {}

  /// An edge is gone, and its sessions with it.
  public mutating func edgeLost(_ edge: UInt64, now: Timestamp, into outcome: inout Outcome) {}

  /// A `store` or `remove` effect was carried out, or could not be.
  public mutating func registrationStored(
    token: UInt64, ok: Bool, now: Timestamp, into outcome: inout Outcome
  ) {}

  /// Carries out what is due.
  public mutating func fire(now: Timestamp, into outcome: inout Outcome) {}

  /// When `fire` is due next.
  public var nextDeadline: Timestamp { .distantFuture }

  /// The fewest entries that rebuild every call.
  public func checkpointEntries() -> [JournalEntry] { [] }

  // MARK: For operators

  public var counts: ShardCounts { ShardCounts() }
  public func inspect(call: CallID) -> CallInspection? { nil }
  public func inspect(user: UserKey) -> UserInspection? { nil }
}

/// Gauges and counters of one shard. Counters count since the shard was claimed.
public struct ShardCounts: Sendable, Equatable {
  public var placed = 0
  public var ringing = 0
  public var answered = 0
  /// Ended, but kept for late devices.
  public var endedKept = 0
  public var sessions = 0
  public var registrations = 0
  public var callsPlacedTotal: UInt64 = 0
  public var callsAnsweredTotal: UInt64 = 0
  public var callsEndedTotal: UInt64 = 0
  public var deliveriesTotal: UInt64 = 0
  public var deliveryRepeatsTotal: UInt64 = 0
  public init() {}
}

/// "Why did my phone not ring": a call, its legs, and what happened when, per device.
public struct CallInspection: Sendable, Equatable {
  public struct Leg: Sendable, Equatable {
    public var party: Party
    /// waking, delivered, alerting, won, declined, busy, ignored or stopped.
    public var state: String
    public var session: SessionRef?
    public init(party: Party, state: String, session: SessionRef?) {
      self.party = party
      self.state = state
      self.session = session
    }
  }
  public struct Event: Sendable, Equatable {
    public var at: Timestamp
    /// nil: of the call as a whole.
    public var device: DeviceID?
    /// placed, delivered, repeated, acknowledged, alerting, answered, declined, stopped, …
    public var what: String
    public init(at: Timestamp, device: DeviceID?, what: String) {
      self.at = at
      self.device = device
      self.what = what
    }
  }
  public var state: CallState
  public var app: String
  public var caller: Party
  public var legs: [Leg]
  public var timeline: [Event]
  public init(state: CallState, app: String, caller: Party, legs: [Leg], timeline: [Event]) {
    self.state = state
    self.app = app
    self.caller = caller
    self.legs = legs
    self.timeline = timeline
  }
}

public struct UserInspection: Sendable, Equatable {
  public struct Device: Sendable, Equatable {
    public var device: DeviceID
    public var name: String
    public var session: SessionRef?
    public var client: String
    public var attachedAt: Timestamp?
    public var registration: Registration?
    public init(
      device: DeviceID, name: String, session: SessionRef?, client: String,
      attachedAt: Timestamp?, registration: Registration?
    ) {
      self.device = device
      self.name = name
      self.session = session
      self.client = client
      self.attachedAt = attachedAt
      self.registration = registration
    }
  }
  public var user: UserKey
  public var devices: [Device]
  public var calls: [CallState]
  public init(user: UserKey, devices: [Device], calls: [CallState]) {
    self.user = user
    self.devices = devices
    self.calls = calls
  }
}
