package import CallTelemetry

/// What all nodes said of themselves, put together: pure, so that it can be tested.
package struct ClusterView: Sendable, Equatable {
  package struct Node: Sendable, Equatable {
    package var status: NodeStatus
    /// Of one core; since the node's start where there is no earlier sample.
    package var cpuPercent: Double
  }
  package struct Rates: Sendable, Equatable {
    package var callsPlaced = 0.0
    package var callsAnswered = 0.0
    package var callsEnded = 0.0
    package var commands = 0.0
    package var deliveries = 0.0
    package var deliveryRepeats = 0.0
    package var appends = 0.0
  }

  package var nodes: [Node] = []
  package var shardCount = 0
  /// By shard: the nodes that serve it.
  package var owners: [[String]] = []
  /// Shards that a node has claimed and is reading back.
  package var recovering: Set<Int> = []
  /// Shards of which a node cannot read what the store has, with what it says of them.
  package var stopped: [Int: StoppedShard] = [:]
  package var placed = 0
  package var ringing = 0
  package var answered = 0
  package var endedKept = 0
  package var connections = 0
  package var sessions = 0
  package var registrations = 0
  /// Per second.
  package var rates = Rates()
  /// Between the two samples; nil where the rates are those since the nodes' start.
  package var seconds: Double?
  /// Of the slowest node each: percentiles of several nodes cannot be added up.
  package var appendLatency: LatencySummary?
  package var commandLatency: LatencySummary?
  package var ringLatency: LatencySummary?
  /// For how long shards were silent when they were handed over, and when their owner was lost.
  package var handoverPause: LatencySummary?
  package var takeoverPause: LatencySummary?
  package var journalMessages: UInt64 = 0
  package var journalBytes: UInt64 = 0
  package var appendsTotal: UInt64 = 0
  package var appendsRefusedTotal: UInt64 = 0
  package var appendsUnknownTotal: UInt64 = 0
  /// Jobs in the work queue, by lane; nil: not known.
  package var pushQueue: [String: Int]?
  var unaskedQueue: [String: Int] = [:]
  /// Of all gateways, by outcome, since their start; and per second.
  package var pushOutcomes: [String: UInt64] = [:]
  package var pushRates: [String: Double] = [:]
  package var busReconnects: UInt64 = 0
  package var busDropped: UInt64 = 0
  /// What makes the cluster degraded, each with what to do.
  package var problems: [String] = []
  /// What an operator may want to know and need not do anything about.
  package var notes: [String] = []

  package var isHealthy: Bool { problems.isEmpty }
  package var unowned: [Int] {
    owners.indices.filter {
      owners[$0].isEmpty && !recovering.contains($0) && stopped[$0] == nil
    }
  }
  package var contested: [Int] { owners.indices.filter { owners[$0].count > 1 } }

  /// - Parameters:
  ///   - earlier: an earlier sample, for rates and CPU.
  ///   - seconds: the time between the two.
  ///   - pushQueue: jobs in the work queue, by lane, where somebody looked.
  ///   - wallSeconds: since 1970, for what expires.
  package init(
    _ now: [NodeStatus], earlier: [NodeStatus]? = nil, seconds: Double = 1,
    pushQueue: [String: Int]? = nil,
    wallSeconds: Int64 = CalendarTime.nowMilliseconds() / 1000
  ) {
    self.pushQueue = pushQueue
    self.seconds = earlier == nil ? nil : seconds
    let before = Dictionary(
      (earlier ?? []).map { (Identity($0), $0) }, uniquingKeysWith: { first, _ in first })
    nodes = now.map { status in
      let past = before[Identity(status)]
      let cpu = status.cpuSeconds - (past?.cpuSeconds ?? 0)
      let time = past == nil ? status.uptimeSeconds : seconds
      return Node(status: status, cpuPercent: time > 0.001 ? max(0, min(cpu / time * 100, 1e6)) : 0)
    }
    shardCount = now.map(\.shardCount).max() ?? 0
    owners = Array(repeating: [], count: max(0, shardCount))
    for status in now { add(status) }
    addRates(now, before: before, seconds: seconds)
    addPushes(now, before: before, seconds: seconds)
    judge(now, before: before, wallSeconds: wallSeconds)
    judgePushes(now, before: before)
  }

  /// A node's process: another one of the same name is somebody else.
  package struct Identity: Hashable {
    var node: String
    var process: Int32
    var role: String
    package init(_ status: NodeStatus) {
      node = status.node
      process = status.processID
      role = status.role
    }
  }

  private mutating func add(_ status: NodeStatus) {
    busReconnects.add(status.bus.reconnects)
    busDropped.add(status.bus.dropped)
    if let edge = status.edge {
      connections.add(edge.connections)
      sessions.add(edge.sessions)
      commandLatency = Self.slower(commandLatency, edge.commandLatency)
      ringLatency = Self.slower(ringLatency, edge.ringLatency)
    }
    guard let coordinator = status.coordinator else { return }
    appendLatency = Self.slower(appendLatency, coordinator.appendLatency)
    handoverPause = Self.slower(handoverPause, coordinator.handoverPause)
    takeoverPause = Self.slower(takeoverPause, coordinator.takeoverPause)
    appendsTotal.add(coordinator.appendsTotal)
    appendsRefusedTotal.add(coordinator.appendsRefusedTotal)
    appendsUnknownTotal.add(coordinator.appendsUnknownTotal)
    journalMessages = max(journalMessages, coordinator.journalMessages)
    journalBytes = max(journalBytes, coordinator.journalBytes)
    for shard in coordinator.stopped ?? [] { stopped[shard.shard] = shard }
    for shard in coordinator.shards {
      placed.add(shard.placed)
      ringing.add(shard.ringing)
      answered.add(shard.answered)
      endedKept.add(shard.endedKept)
      registrations.add(shard.registrations)
      guard owners.indices.contains(shard.shard) else { continue }
      switch shard.state {
      case "recovering": recovering.insert(shard.shard)
      // Nobody serves it, though a node tries.
      case "stopped": continue
      default:
        owners[shard.shard].append(status.node)
      }
    }
  }

  private static func slower(_ a: LatencySummary?, _ b: LatencySummary?) -> LatencySummary? {
    guard let a, a.count > 0 else { return b }
    guard let b, b.count > 0 else { return a }
    return LatencySummary(
      count: a.count + b.count, p50: max(a.p50, b.p50), p90: max(a.p90, b.p90),
      p99: max(a.p99, b.p99), max: max(a.max, b.max))
  }
}
