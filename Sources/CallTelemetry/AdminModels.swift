/// What nodes answer to operators' questions, as JSON on the bus. JSON and not protobuf so that any
/// NATS tool can ask, and a person can read the answer. Times are milliseconds since 1970.

/// One node's answer to `<cluster>.admin.status`.
public struct NodeStatus: Codable, Sendable, Equatable {
  public var node: String
  public var role: String
  /// starting, serving or leaving.
  public var state: String
  public var version: String
  public var processID: Int32
  public var uptimeSeconds: Double
  /// Of the whole process since its start.
  public var cpuSeconds: Double
  public var memoryBytes: UInt64
  public var shardCount: Int
  public var bus: BusHealth
  public var edge: EdgeStatus?
  public var coordinator: CoordinatorStatus?
  public var push: PushStatus?

  public init(
    node: String, role: String, state: String, version: String, processID: Int32,
    uptimeSeconds: Double, cpuSeconds: Double, memoryBytes: UInt64, shardCount: Int,
    bus: BusHealth, edge: EdgeStatus? = nil, coordinator: CoordinatorStatus? = nil,
    push: PushStatus? = nil
  ) {
    self.node = node
    self.role = role
    self.state = state
    self.version = version
    self.processID = processID
    self.uptimeSeconds = uptimeSeconds
    self.cpuSeconds = cpuSeconds
    self.memoryBytes = memoryBytes
    self.shardCount = shardCount
    self.bus = bus
    self.edge = edge
    self.coordinator = coordinator
    self.push = push
  }
}

public struct BusHealth: Codable, Sendable, Equatable {
  public var connected = false
  public var server = ""
  public var serverVersion = ""
  public var reconnects: UInt64 = 0
  public var messagesIn: UInt64 = 0
  public var messagesOut: UInt64 = 0
  public var dropped: UInt64 = 0
  public init() {}
}

/// A latency in microseconds since the node's start.
public struct LatencySummary: Codable, Sendable, Equatable {
  public var count: UInt64
  public var p50: Int64
  public var p90: Int64
  public var p99: Int64
  public var max: Int64
  public init(count: UInt64, p50: Int64, p90: Int64, p99: Int64, max: Int64) {
    self.count = count
    self.p50 = p50
    self.p90 = p90
    self.p99 = p99
    self.max = max
  }
  public init(_ histogram: LatencyHistogram) {
    self.init(
      count: histogram.count, p50: histogram.percentile(0.5), p90: histogram.percentile(0.9),
      p99: histogram.percentile(0.99), max: histogram.percentile(1))
  }
}

public struct EdgeStatus: Codable, Sendable, Equatable {
  /// What the edge takes the time to be, in seconds since 1970. nil: an edge of a former version.
  public var clockSeconds: Int64?
  public var incarnation: UInt64 = 0
  public var connections = 0
  public var sessions = 0
  public var commandsTotal: UInt64 = 0
  public var commandsRetriedTotal: UInt64 = 0
  public var commandsTimedOutTotal: UInt64 = 0
  public var deliveriesTotal: UInt64 = 0
  public var errorsTotal: UInt64 = 0
  /// From a command's arrival to its reply leaving.
  public var commandLatency: LatencySummary?
  /// From a place's arrival at an edge until this edge has written the call's last invite; nil from nodes
  /// that do not say.
  public var ringLatency: LatencySummary?
  /// When the certificate of the devices' port expires: seconds since 1970; nil where it speaks no TLS.
  public var certificateExpires: Int64?
  public init() {}
}

public struct CoordinatorStatus: Codable, Sendable, Equatable {
  public var shards: [ShardStatus] = []
  public var commandsTotal: UInt64 = 0
  /// From an append's start to its acknowledgement.
  public var appendLatency: LatencySummary?
  /// From placing until all devices have acknowledged the invite, or said something of the call:
  /// includes lost and late acknowledgements.
  public var ringLatency: LatencySummary?
  public var appendsTotal: UInt64 = 0
  public var appendsRefusedTotal: UInt64 = 0
  public var appendsUnknownTotal: UInt64 = 0
  public var journalMessages: UInt64 = 0
  public var journalBytes: UInt64 = 0
  /// Shards of which this node cannot read what the store has; nil from nodes that do not say.
  public var stopped: [StoppedShard]?
  /// For shards that were handed over: from the former owner's last record until they served here.
  public var handoverPause: LatencySummary?
  /// For shards whose owner was lost: from its last sign of life until they served here.
  public var takeoverPause: LatencySummary?
  /// How often the journal is kept; nil from nodes that do not say.
  public var journalReplicas: Int?
  public init() {}
}

public struct StoppedShard: Codable, Sendable, Equatable {
  public var shard: Int
  /// journal, checkpoint or lease.
  public var what: String
  /// Of the record in the journal.
  public var sequence: UInt64?
  public var reason: String
  public var remedy: String
  public init(shard: Int, what: String, sequence: UInt64?, reason: String, remedy: String) {
    self.shard = shard
    self.what = what
    self.sequence = sequence
    self.reason = reason
    self.remedy = remedy
  }
}

public struct ShardStatus: Codable, Sendable, Equatable {
  public var shard: Int
  /// recovering, serving or releasing.
  public var state: String
  public var epoch: UInt64
  public var sequence: UInt64
  public var placed: Int
  public var ringing: Int
  public var answered: Int
  public var endedKept: Int
  public var sessions: Int
  public var registrations: Int
  public var callsPlacedTotal: UInt64
  public var callsAnsweredTotal: UInt64
  public var callsEndedTotal: UInt64
  public var deliveriesTotal: UInt64
  public var deliveryRepeatsTotal: UInt64
  public init(
    shard: Int, state: String, epoch: UInt64, sequence: UInt64, placed: Int, ringing: Int,
    answered: Int, endedKept: Int, sessions: Int, registrations: Int, callsPlacedTotal: UInt64,
    callsAnsweredTotal: UInt64, callsEndedTotal: UInt64, deliveriesTotal: UInt64,
    deliveryRepeatsTotal: UInt64
  ) {
    self.shard = shard
    self.state = state
    self.epoch = epoch
    self.sequence = sequence
    self.placed = placed
    self.ringing = ringing
    self.answered = answered
    self.endedKept = endedKept
    self.sessions = sessions
    self.registrations = registrations
    self.callsPlacedTotal = callsPlacedTotal
    self.callsAnsweredTotal = callsAnsweredTotal
    self.callsEndedTotal = callsEndedTotal
    self.deliveriesTotal = deliveriesTotal
    self.deliveryRepeatsTotal = deliveryRepeatsTotal
  }
}

/// Body of `<cluster>.admin.call`: `{"call":"<uuid>"}`; of `<cluster>.admin.user`: app and user.
/// Nodes that do not own the call or user answer with `found: false`, so that whoever asks need not
/// wait for a timeout.
public struct AdminQuery: Codable, Sendable, Equatable {
  public var call: String?
  public var app: String?
  public var user: String?
  public init(call: String? = nil, app: String? = nil, user: String? = nil) {
    self.call = call
    self.app = app
    self.user = user
  }
}

public struct CallReport: Codable, Sendable, Equatable {
  public struct Party: Codable, Sendable, Equatable {
    public var user: String
    public var device: String
    public var deviceName: String
    public init(user: String, device: String, deviceName: String) {
      self.user = user
      self.device = device
      self.deviceName = deviceName
    }
  }
  public struct Leg: Codable, Sendable, Equatable {
    public var party: Party
    public var state: String
    /// The session's name, as its device and the edge's log know it; nil without a session.
    public var session: String?
    /// What was pushed to it, by purpose; nil from nodes that do not say.
    public var pushes: [String]?
    public init(party: Party, state: String, session: String?, pushes: [String]? = nil) {
      self.party = party
      self.state = state
      self.session = session
      self.pushes = pushes
    }
  }
  public struct Event: Codable, Sendable, Equatable {
    /// Microseconds since 1970.
    public var atMicroseconds: Int64
    /// nil: of the call as a whole.
    public var device: String?
    /// Whose device: caller and callee may have devices of the same id.
    public var user: String?
    public var what: String
    /// What a push was for.
    public var purpose: String?
    /// Why a push was rejected or failed.
    public var reason: String?
    public init(
      atMicroseconds: Int64, device: String?, user: String? = nil, what: String,
      purpose: String? = nil, reason: String? = nil
    ) {
      self.atMicroseconds = atMicroseconds
      self.device = device
      self.user = user
      self.what = what
      self.purpose = purpose
      self.reason = reason
    }
  }
  public var found: Bool
  public var node: String
  public var shard: Int?
  public var app: String?
  public var call: String?
  public var callee: String?
  public var caller: Party?
  public var phase: String?
  public var reason: String?
  public var by: Party?
  public var deadlineMilliseconds: Int64?
  public var legs: [Leg]?
  public var timeline: [Event]?
  /// Events for which the timeline had no room; nil from nodes that do not say.
  public var timelineDropped: Int?
  public init(found: Bool, node: String) {
    self.found = found
    self.node = node
  }
}

public struct UserReport: Codable, Sendable, Equatable {
  /// A push token, without the token.
  public struct Token: Codable, Sendable, Equatable {
    /// voip or alert.
    public var kind: String
    public var provider: String
    public var environment: String
    public var topic: String
    /// The first 12 hex digits of its fingerprint; empty where it has none.
    public var fingerprint: String
    public init(
      kind: String, provider: String, environment: String, topic: String, fingerprint: String
    ) {
      self.kind = kind
      self.provider = provider
      self.environment = environment
      self.topic = topic
      self.fingerprint = fingerprint
    }
  }
  public struct Device: Codable, Sendable, Equatable {
    public var device: String
    public var name: String
    public var session: String?
    public var client: String
    public var attachedAtMilliseconds: Int64?
    public var registeredAtMilliseconds: Int64?
    public var pushProviders: [String]
    public var seenAtMilliseconds: Int64?
    /// What is registered: nil without a registration, and from nodes that do not say.
    public var tokens: [Token]?
    public var dialect: String?
    public var sdk: String?
    /// The pushes that it takes beside ringing.
    public var capabilities: [String]?
    public init(
      device: String, name: String, session: String?, client: String,
      attachedAtMilliseconds: Int64?, registeredAtMilliseconds: Int64?, pushProviders: [String]
    ) {
      self.device = device
      self.name = name
      self.session = session
      self.client = client
      self.attachedAtMilliseconds = attachedAtMilliseconds
      self.registeredAtMilliseconds = registeredAtMilliseconds
      self.pushProviders = pushProviders
    }
  }
  public struct Call: Codable, Sendable, Equatable {
    public var call: String
    public var phase: String
    public var reason: String?
    /// placed: by the user; called: the user is; toSelf: both. nil from nodes that do not say.
    public var direction: String?
    /// The user on the other side.
    public var with: String?
    public var placedAtMilliseconds: Int64?
    public init(
      call: String, phase: String, reason: String?, direction: String? = nil, with: String? = nil,
      placedAtMilliseconds: Int64? = nil
    ) {
      self.call = call
      self.phase = phase
      self.reason = reason
      self.direction = direction
      self.with = with
      self.placedAtMilliseconds = placedAtMilliseconds
    }
  }
  /// What one coordinator knows of the calls that the user placed. They are in the shards of those who
  /// are called, so that any coordinator may have some.
  public struct Placed: Codable, Sendable, Equatable {
    public var calls: [Call]
    /// Older ones that are not in the answer.
    public var leftOut: Int
    /// The shards that were searched.
    public var shards: [Int]
    /// Of the whole cluster.
    public var shardCount: Int
    public init(calls: [Call], leftOut: Int, shards: [Int], shardCount: Int) {
      self.calls = calls
      self.leftOut = leftOut
      self.shards = shards
      self.shardCount = shardCount
    }
  }
  /// Whether the node owns the user and knows it.
  public var found: Bool
  public var node: String
  public var shard: Int?
  public var app: String?
  public var user: String?
  public var devices: [Device]?
  /// From a node: the calls to the user. In what `callctl` makes of all answers: those that it placed,
  /// too.
  public var calls: [Call]?
  /// Older calls that are not among them.
  public var callsLeftOut: Int?
  /// From coordinators, also from those that do not own the user; not in what `callctl` makes of it.
  public var placed: Placed?
  /// How many shards no node has searched for calls that the user placed; said by `callctl` alone.
  public var shardsMissing: Int?
  public init(found: Bool, node: String) {
    self.found = found
    self.node = node
  }
}
