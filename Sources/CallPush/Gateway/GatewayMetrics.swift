internal import CallBus
internal import CallTelemetry
internal import Synchronization

/// The handles of a gateway's metrics. Senders have `SenderStatistics`.
struct GatewayMetrics: Sendable {
  let jobs: [PushLane: Counter]
  let counts: [GatewayMachine.Count: Counter]
  let unreadable: Counter
  let reportsWaiting: Gauge
  private let registry: MetricsRegistry

  init(_ registry: MetricsRegistry, lanes: Set<PushLane>, depths: LaneDepths) {
    self.registry = registry
    var jobs: [PushLane: Counter] = [:]
    for lane in lanes {
      jobs[lane] = registry.counter(
        "callmesh_push_jobs_total", "Jobs taken from the work queue, repeats included.",
        labels: [("lane", lane.rawValue)])
      registry.reading(
        "callmesh_push_queue_depth", "Jobs in the work queue, those under way included.",
        labels: [("lane", lane.rawValue)]
      ) { depths[lane].map(Double.init) ?? .nan }
    }
    self.jobs = jobs
    var counts: [GatewayMachine.Count: Counter] = [:]
    for what in GatewayMachine.Count.allCases {
      counts[what] = registry.counter(
        "callmesh_push_events_total", "What happened to jobs and reports beside the pushes.",
        labels: [("event", what.rawValue)])
    }
    self.counts = counts
    unreadable = registry.counter(
      "callmesh_push_jobs_unreadable_total", "Jobs and withdrawals that could not be decoded.")
    reportsWaiting = registry.gauge(
      "callmesh_push_reports_waiting", "Reports that no shard has answered yet.")
  }

  /// The depths and drop counters of the queues to and from the bus.
  static func registerQueues(
    _ registry: MetricsRegistry, inbox: Inbox<GatewayEvent>, bus: some MessageBus
  ) {
    registry.reading("callmesh_push_inbox_depth", "Events that wait for the gateway's task.") {
      Double(inbox.depth)
    }
    registry.reading(
      "callmesh_push_inbox_dropped_total", "Events that the gateway's full inbox refused.",
      type: "counter"
    ) { Double(inbox.dropped) }
    registry.reading("callmesh_push_outbox_depth", "Messages that wait to be sent to the bus.") {
      Double(bus.statistics.outboxDepth)
    }
    registry.reading(
      "callmesh_push_bus_dropped_total", "Messages that the bus dropped, in either direction.",
      type: "counter"
    ) { Double(bus.statistics.dropped) }
  }

  func waiting(_ pool: String) -> Gauge {
    registry.gauge(
      "callmesh_push_pool_waiting", "Jobs that wait for a place in their pool.",
      labels: [("pool", pool)])
  }
}

/// The number of jobs in each lane, when last queried.
final class LaneDepths: Sendable {
  private let depths = Mutex<[PushLane: Int]>([:])
  subscript(lane: PushLane) -> Int? { depths.withLock { $0[lane] } }
  func set(_ lane: PushLane, _ depth: Int?) { depths.withLock { $0[lane] = depth } }
}
