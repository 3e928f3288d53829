package import CallTelemetry

/// The answers of all nodes put together. Does no I/O, so that it can be tested.
package struct ClusterView: Sendable, Equatable, Encodable {
  package struct Node: Sendable, Equatable, Encodable {
    /// In percent of one core; since the node's start where there is no earlier sample.
    package var cpuPercent: Double
    package var status: NodeStatus
  }
  package struct Calls: Sendable, Equatable, Encodable {
    package var placed = 0
    package var ringing = 0
    package var answered = 0
    package var endedKept = 0
  }
  /// Per second.
  package struct Rates: Sendable, Equatable, Encodable {
    package var callsPlaced = 0.0
    package var callsAnswered = 0.0
    package var callsEnded = 0.0
    package var commands = 0.0
    package var deliveries = 0.0
    package var deliveryRepeats = 0.0
    package var appends = 0.0
    /// The time between the two samples; nil: since the nodes' start.
    package var overSeconds: Double?
  }
  /// The percentiles of the slowest node: percentiles of several nodes cannot be added up.
  package struct Latency: Sendable, Equatable, Encodable {
    package var command: LatencySummary?
    package var append: LatencySummary?
    package var ring: LatencySummary?
    /// How long shards were silent when they were handed over.
    package var handover: LatencySummary?
    /// How long shards were silent when their owner was lost.
    package var takeover: LatencySummary?
  }
  package struct Journal: Sendable, Equatable, Encodable {
    package var messages: UInt64 = 0
    package var bytes: UInt64 = 0
    package var appendsTotal: UInt64 = 0
    package var appendsRefusedTotal: UInt64 = 0
    package var appendsUnknownTotal: UInt64 = 0
  }
  package struct Push: Sendable, Equatable, Encodable {
    /// Jobs in the work queue, by lane; nil where no gateway reports them.
    package var queue: [String: Int]?
    /// The outcomes of all gateways since their start.
    package var outcomes: [String: UInt64] = [:]
    package var outcomesPerSecond: [String: Double] = [:]
  }

  private enum CodingKeys: String, CodingKey {
    case problems, notes, calls, connections, sessions, registrations, journal, push, nodes
    case rates = "perSecond"
    case latency = "latencyMicroseconds"
  }

  package var nodes: [Node] = []
  package var shardCount = 0
  /// By shard: the nodes that serve it.
  package var owners: [[String]] = []
  /// Shards that a node has claimed and is recovering.
  package var recovering: Set<Int> = []
  /// Shards whose stored records a node cannot read, with its explanation.
  package var stopped: [Int: StoppedShard] = [:]
  package var calls = Calls()
  package var connections = 0
  package var sessions = 0
  package var registrations = 0
  package var rates = Rates()
  package var latency = Latency()
  package var journal = Journal()
  package var push = Push()
  package var busReconnects: UInt64 = 0
  package var busDropped: UInt64 = 0
  /// Why the cluster is degraded, each with what to do.
  package var problems: [String] = []
  /// Facts that need no action.
  package var notes: [String] = []

  package var isHealthy: Bool { problems.isEmpty }
  package var unowned: [Int] {
    owners.indices.filter {
      owners[$0].isEmpty && !recovering.contains($0) && stopped[$0] == nil
    }
  }
  package var contested: [Int] { owners.indices.filter { owners[$0].count > 1 } }
  var served: Int { owners.count { !$0.isEmpty } }
  /// The number of shards of each owner.
  var byOwner: [String: Int] {
    owners.joined().reduce(into: [:]) { $0[$1, default: 0] += 1 }
  }

  /// - Parameters:
  ///   - earlier: an earlier sample, for rates and CPU.
  ///   - seconds: the time between the two.
  ///   - pushQueue: jobs in the work queue, by lane; nil: the gateways' reports count.
  ///   - webhooksGone: those that have answered 410, by app and host.
  ///   - wallSeconds: the time since 1970, for certificates.
  package init(
    _ now: [NodeStatus], earlier: [NodeStatus]? = nil, seconds: Double = 1,
    pushQueue: [String: Int]? = nil, webhooksGone: [String] = [],
    wallSeconds: Int64 = CalendarTime.nowMilliseconds() / 1000
  ) {
    push.queue = pushQueue ?? Self.reportedQueue(now)
    rates.overSeconds = earlier == nil ? nil : seconds
    let before = Dictionary(
      (earlier ?? []).map { (Identity($0), $0) }, uniquingKeysWith: { first, _ in first })
    nodes = now.map { status in
      let past = before[Identity(status)]
      let cpu = status.cpuSeconds - (past?.cpuSeconds ?? 0)
      let time = past == nil ? status.uptimeSeconds : seconds
      return Node(cpuPercent: time > 0.001 ? max(0, min(cpu / time * 100, 1e6)) : 0, status: status)
    }
    shardCount = now.map(\.shardCount).max() ?? 0
    owners = Array(repeating: [], count: max(0, shardCount))
    let time = earlier == nil ? now.map(\.uptimeSeconds).max() ?? 0 : seconds
    for status in now {
      add(status)
      let past = before[Identity(status)]
      // A node that is new counts from the next sample on.
      let counts = time > 0.001 && (earlier == nil || past != nil)
      if counts { addRates(status, past, over: time) }
      addPushes(status, past, over: counts ? time : nil)
    }
    judge(now, before: before, wallSeconds: wallSeconds)
    for webhook in webhooksGone {
      problems.append(
        "The webhook of app \(webhook) answers 410, so it gets one event an hour to try. If its URL "
          + "has changed, change it in the file of keys; callctl webhooks shows what waits.")
    }
  }

  /// A node's process. Another process under the same name counts as another node.
  struct Identity: Hashable {
    var node: String
    var process: Int32
    var role: String
    init(_ status: NodeStatus) {
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
      latency.command = Self.slower(latency.command, edge.commandLatency)
      latency.ring = Self.slower(latency.ring, edge.ringLatency)
    }
    guard let coordinator = status.coordinator else { return }
    latency.append = Self.slower(latency.append, coordinator.appendLatency)
    latency.handover = Self.slower(latency.handover, coordinator.handoverPause)
    latency.takeover = Self.slower(latency.takeover, coordinator.takeoverPause)
    journal.appendsTotal.add(coordinator.appendsTotal)
    journal.appendsRefusedTotal.add(coordinator.appendsRefusedTotal)
    journal.appendsUnknownTotal.add(coordinator.appendsUnknownTotal)
    journal.messages = max(journal.messages, coordinator.journalMessages)
    journal.bytes = max(journal.bytes, coordinator.journalBytes)
    for shard in coordinator.stopped ?? [] { stopped[shard.shard] = shard }
    for shard in coordinator.shards {
      calls.placed.add(shard.placed)
      calls.ringing.add(shard.ringing)
      calls.answered.add(shard.answered)
      calls.endedKept.add(shard.endedKept)
      registrations.add(shard.registrations)
      guard owners.indices.contains(shard.shard) else { continue }
      switch ShardState(rawValue: shard.state) {
      case .recovering: recovering.insert(shard.shard)
      // A node holds the shard but cannot serve it.
      case .stopped: continue
      case .serving, .releasing, nil: owners[shard.shard].append(status.node)
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
