public import CallBus
internal import CallCore
public import CallTelemetry
internal import CallWire
public import Logging
public import ServiceLifecycle

/// One coordinator: claims its part of the shards, serves them, and gives them up on graceful
/// shutdown.
///
/// `run` owns everything the node does: its workers, the manager of its shards, the writer of
/// checkpoints and the answers to operators are its child tasks.
public struct CoordinatorNode<Bus: ClusterBus>: Service {
  private let configuration: CoordinatorConfiguration
  private let bus: Bus
  private let clock: ClusterClock
  private let incarnation: UInt64
  package let metrics: CoordinatorMetrics
  private let registry: MetricsRegistry
  private let logger: Logger
  /// Closed when the node is to give everything up.
  private let leaving = Inbox<Never>(capacity: 1)

  /// - Parameter incarnation: not 0, and never the same for two runs of a node.
  public init(
    configuration: CoordinatorConfiguration, bus: Bus, clock: ClusterClock,
    metrics: MetricsRegistry, logger: Logger,
    incarnation: UInt64 = UInt64.random(in: 1...UInt64.max)
  ) {
    var configuration = configuration
    configuration.incarnation = incarnation
    self.configuration = configuration
    self.bus = bus
    self.clock = clock
    self.incarnation = incarnation
    self.metrics = CoordinatorMetrics(metrics)
    registry = metrics
    self.logger = logger.with([.node: "\(configuration.nodeID)"])
  }

  /// Runs until graceful shutdown has given every shard up, or until it is cancelled, which is as a
  /// crash would be: nothing is released, and others take over when the node is not heard any more.
  /// - Throws: `CoordinatorError`, when the node must not run.
  public func run() async throws {
    try configuration.validate()
    try await withGracefulShutdownHandler {
      // Nothing is held yet: who is asked to go while it waits for the store goes at once.
      guard let parts = try await leaving.unlessClosed({ try await open() }) else { return }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for worker in parts.workers { group.addTask { await worker.run() } }
        group.addTask { await parts.checkpointer.run() }
        group.addTask { await parts.admin.run() }
        group.addTask { await parts.dispatcher.run() }
        group.addTask { await parts.depths.run() }
        group.addTask { try await parts.manager.run() }
        group.addTask {
          _ = await leaving.next(until: nil)
          if leaving.isClosed { parts.manager.shutDown() }
        }
        _ = await parts.manager.ended.next(until: nil)
        group.cancelAll()
        try await group.waitForAll()
      }
    } onGracefulShutdown: {
      leaving.close()
    }
  }

  /// What graceful shutdown does: `run` returns when every shard is given up, or its time is over.
  package func beginShutdown() { leaving.close() }

  private struct Parts: Sendable {
    var workers: [ShardWorker]
    var checkpointer: Checkpointer
    var admin: AdminResponder
    var dispatcher: OrderDispatcher
    var depths: PushDepths
    var manager: ShardManager
  }

  private func open() async throws(CoordinatorError) -> Parts {
    let subjects = Subjects(
      cluster: configuration.cluster, shardCount: configuration.shardCount)
    let journal: Bus.JournalType
    let leases: Bus.BucketType
    let registrations: Bus.BucketType
    let checkpoints: Bus.BucketType
    let tokens: Bus.BucketType
    let revocations: Bus.BucketType
    let pushQueue: Bus.QueueType
    let audit: Bus.AuditType
    do {
      var options = configuration.journal
      options.shardCount = configuration.shardCount
      let retry = StoreRetryPolicy(clock: clock, limit: configuration.storeTimeout) {
        [logger] error in
        logger.notice("waits for the store", metadata: .keys([.error: "\(error)"]))
      }
      journal = try await retry { try await bus.openJournal(options) }
      let open = { (name: String) async throws in
        try await retry { try await bus.openBucket(name, configuration.buckets) }
      }
      leases = try await retry {
        try await bus.openBucket(subjects.leaseBucket, configuration.buckets.small)
      }
      registrations = try await open(subjects.registrationBucket)
      checkpoints = try await open(subjects.checkpointStream)
      tokens = try await open(subjects.tokenBucket)
      revocations = try await retry {
        try await bus.openBucket(
          subjects.revocationBucket, Revocation.bucket(configuration.buckets))
      }
      var trail = AuditOptions(role: "coordinator")
      trail.createsMissing = true
      (trail.replicas, trail.inMemory) = (options.replicas, options.inMemory)
      audit = try await retry { [trail] in try await bus.openAudit(trail) }
      pushQueue = try await retry { try await bus.openWorkQueue(configuration.pushQueue) }
    } catch {
      throw .store("\(error)")
    }
    let store = CheckpointStore(bucket: checkpoints)
    let checkpointer = Checkpointer(
      store: store, journal: journal, shardCount: configuration.shardCount, metrics: metrics,
      logger: logger)
    let inbox = ShardManagerInbox(
      timers: clock.timers, heartbeatsDropped: metrics.heartbeatsDropped,
      requestsDropped: metrics.announceRequestsDropped)
    let workers = makeWorkers { index in
      ShardWorker.Dependencies(
        configuration: configuration, subjects: subjects, bus: bus, journal: journal,
        registrations: registrations, tokens: tokens, pushOutlet: QueueOutlet(pushQueue),
        peer: ShardHash.peer(of: incarnation, index), clock: clock, metrics: metrics,
        logger: logger, writeCheckpoint: { checkpointer.offer($0) },
        report: { inbox.report($0) })
    }
    let manager = ShardManager(
      ShardClaim.Dependencies(
        configuration: configuration, incarnation: incarnation,
        subjects: subjects, bus: bus, journal: journal, checkpoints: store, leases: leases,
        registrations: registrations, clock: clock, metrics: metrics, logger: logger),
      workers: workers, inbox: inbox)
    registry.reading(
      "callmesh_coordinator_manager_inbox_depth",
      "Events that wait for the manager of the node's shards."
    ) { [weak inbox] in Double(inbox?.depth ?? 0) }
    registry.reading(
      "callmesh_coordinator_checkpoint_queue_depth", "Checkpoints that wait to be written."
    ) { [weak checkpointer] in Double(checkpointer?.waiting ?? 0) }
    let admin = AdminResponder(
      configuration: configuration, subjects: subjects, bus: bus, journal: journal,
      manager: manager, metrics: metrics, logger: logger)
    registry.reading(
      "callmesh_coordinator_admin_queue_depth", "Operators' questions that wait for an answer."
    ) { [weak admin] in Double(admin?.questionsWaiting ?? 0) }
    registry.reading(
      "callmesh_coordinator_admin_questions_dropped_total",
      "Operators' questions refused by the full queue.",
      type: "counter"
    ) { [weak admin] in Double(admin?.questionsDropped ?? 0) }
    let dispatcher = OrderDispatcher(
      bus: bus, subjects: subjects, audit: audit, node: configuration.nodeID, role: "coordinator",
      logger: logger,
      handlers: OrderDispatcher.draining(configuration.nodeID) { request in
        switch request.action {
        case .drain: manager.drain()
        case .resume: manager.resume()
        }
      }.merging(["revoke": revoking(in: revocations)]) { $1 })
    return Parts(
      workers: workers, checkpointer: checkpointer, admin: admin, dispatcher: dispatcher,
      depths: PushDepths(queue: pushQueue, clock: clock, metrics: registry), manager: manager)
  }

  /// The handler of `revoke`. Every coordinator stores the revocation; storing it again changes nothing.
  private func revoking(in bucket: Bus.BucketType) -> OrderDispatcher.Handler {
    { [node = configuration.nodeID] bytes in
      guard let request = BoundedJSON.decode(KickRequest.self, bytes),
        let atSeconds = request.revokedAtSeconds
      else { return nil }
      return OrderDispatcher.Action(about: request.about) {
        var answer = OrderAnswer(node: node, role: "coordinator")
        do {
          try await Revocation(app: request.app, user: request.user, atSeconds: atSeconds)
            .store(in: bucket)
        } catch {
          answer.refused = "\(error)"
        }
        return answer.bytes
      }
    }
  }

  private func makeWorkers(
    _ dependencies: (Int) -> ShardWorker.Dependencies
  ) -> [ShardWorker] {
    (0..<configuration.workers).map { index in
      let worker = ShardWorker(index: index, dependencies(index))
      let inbox = worker.inbox
      let busy = worker.busy
      let labels = [("worker", "\(index)")]
      registry.reading(
        "callmesh_coordinator_worker_busy_ratio",
        "Share of time that a worker works instead of waiting.", labels: labels
      ) { busy.share }
      registry.reading(
        "callmesh_coordinator_worker_inbox_depth", "Events that wait for a worker.",
        labels: labels
      ) { Double(inbox.depth) }
      return worker
    }
  }
}
