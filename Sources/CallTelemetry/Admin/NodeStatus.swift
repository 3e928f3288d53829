// The answers of nodes to operators' questions, as JSON on the bus: not protobuf, so that any NATS tool can ask and
// a person can read the answer. Times are milliseconds since 1970.

/// The states of a node in `NodeStatus.state`.
public enum NodePhase: String, Sendable, CaseIterable {
  case starting, serving
  /// Gives up its devices or shards, to end or by an operator's order. `callctl` shows it as `draining`, and as
  /// `drained` once it holds nothing.
  case leaving
  /// An edge that gives up its devices by an operator's order.
  case draining
  case drained
  /// An edge that gets no answer from any shard.
  case cutOff
}

/// The states of a shard in `ShardStatus.state`.
public enum ShardState: String, Sendable, CaseIterable {
  case recovering, serving, releasing
  /// The node cannot read what the store has of the shard.
  case stopped
}

/// One node's answer to `<cluster>.admin.status`.
public struct NodeStatus: Codable, Sendable, Equatable {
  public var node: String
  public var role: String
  /// A `NodePhase`; nodes of other versions may have others.
  public var state: String
  public var version: String
  public var processID: Int32
  public var uptimeSeconds: Double
  /// The CPU time of the whole process since its start.
  public var cpuSeconds: Double
  public var memoryBytes: UInt64
  public var shardCount: Int
  public var bus = BusHealth()
  public var edge: EdgeStatus?
  public var coordinator: CoordinatorStatus?
  public var push: PushStatus?

  /// Makes the status of a node of this process, as yet without its bus and the part of its role.
  package init(node: String, role: String, state: String, version: String, shardCount: Int) {
    self.node = node
    self.role = role
    self.state = state
    self.version = version
    self.shardCount = shardCount
    processID = ProcessSample.processID
    uptimeSeconds = ProcessSample.uptimeSeconds
    cpuSeconds = ProcessSample.cpuSeconds
    memoryBytes = ProcessSample.memoryBytes
  }
}

extension NodeStatus {
  package var isServing: Bool { state == NodePhase.serving.rawValue }
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
  public init(_ histogram: DurationHistogram) {
    self.init(
      count: histogram.count, p50: histogram.percentile(0.5), p90: histogram.percentile(0.9),
      p99: histogram.percentile(0.99), max: histogram.percentile(1))
  }
}

public struct EdgeStatus: Codable, Sendable, Equatable {
  /// The edge's clock, in seconds since 1970; nil from edges of earlier versions.
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
  /// From a place's arrival at an edge until this edge has written the call's last invite; nil from nodes of earlier
  /// versions.
  public var ringLatency: LatencySummary?
  /// When the certificate of the devices' port expires: seconds since 1970; nil where it speaks no TLS.
  public var certificateExpires: Int64?
  /// Apps whose hook is not asked at present, since it does not answer; nil: there are none.
  public var hooksAway: [String]?
  public init() {}
}

public struct CoordinatorStatus: Codable, Sendable, Equatable {
  public var shards: [ShardStatus] = []
  public var commandsTotal: UInt64 = 0
  /// From an append's start to its acknowledgement.
  public var appendLatency: LatencySummary?
  /// From placing until all devices have acknowledged the invite or sent a command of the call. Includes lost and
  /// late acknowledgements.
  public var ringLatency: LatencySummary?
  public var appendsTotal: UInt64 = 0
  public var appendsRefusedTotal: UInt64 = 0
  public var appendsUnknownTotal: UInt64 = 0
  public var journalMessages: UInt64 = 0
  public var journalBytes: UInt64 = 0
  /// Shards of which this node cannot read what the store has; nil from nodes of earlier versions.
  public var stopped: [StoppedShard]?
  /// For shards that were handed over: from the former owner's last record until they served here.
  public var handoverPause: LatencySummary?
  /// For shards whose owner was lost: from its last sign of life until they served here.
  public var takeoverPause: LatencySummary?
  /// The number of copies of the journal; nil from nodes of earlier versions.
  public var journalReplicas: Int?
  public init() {}
}

extension CoordinatorStatus {
  /// Shards that the node holds: not those that it cannot read.
  package var shardsHeld: Int { shards.count { $0.state != ShardState.stopped.rawValue } }
}

public struct StoppedShard: Codable, Sendable, Equatable {
  public var shard: Int
  /// journal, checkpoint or lease.
  public var what: String
  /// The sequence of the record in the journal.
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
  public var shard = 0
  /// A `ShardState`; nodes of other versions may have others.
  public var state = ""
  public var epoch: UInt64 = 0
  public var sequence: UInt64 = 0
  public var placed = 0
  public var ringing = 0
  public var answered = 0
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
