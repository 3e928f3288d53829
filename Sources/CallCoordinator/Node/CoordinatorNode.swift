public import CallBus
internal import CallCore
public import CallTelemetry
internal import CallWire
public import Logging
public import ServiceLifecycle

/// One coordinator: claims its part of the shards, serves them, and gives them up on graceful shutdown. All of its work
/// runs in child tasks of `run`.
public struct CoordinatorNode<Bus: ClusterBus>: Service {
  private let configuration: CoordinatorConfiguration
  private let bus: Bus
  private let clock: ClusterClock
  private let incarnation: UInt64
  package let metrics: CoordinatorMetrics
  private let registry: MetricsRegistry
  private let logger: Logger
  private let threads: [ActorThread]
  private let exchange: LocalExchange?
  /// Closed when the node must give everything up.
  private let leaving = Inbox<Never>(capacity: 1)

  /// - Parameters:
  ///   - threads: where workers run, in turn. Without any, a single worker runs on the bus's thread, so that reading a
  ///     command, deciding it and writing its append needs no switch of threads, and several have a thread each.
  ///   - exchange: the way from and to the edge of this process; nil without one.
  ///   - incarnation: not 0, and different for each run of a node.
  public init(
    configuration: CoordinatorConfiguration, bus: Bus, clock: ClusterClock,
    metrics: MetricsRegistry, logger: Logger, threads: [ActorThread] = [],
    exchange: LocalExchange? = nil,
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
    self.threads = threads
    self.exchange = exchange
    self.logger = logger.with([.node: "\(configuration.nodeID)"])
  }

  /// Runs until graceful shutdown has given every shard up, or until it is cancelled. Cancelling equals a crash:
  /// nothing is released, and other nodes take over when this one falls silent.
  /// - Throws: `CoordinatorError`, if the node must not run.
  public func run() async throws {
    try configuration.validate()
    try await withGracefulShutdownHandler {
      // The node holds nothing while it waits for the store, so it can end at once.
      guard let parts = try await leaving.unlessClosed({ try await open() }) else { return }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for task in parts.tasks { group.addTask { await task() } }
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

  /// As graceful shutdown: `run` returns when every shard is given up, or after `shutdownTimeout`.
  package func beginShutdown() { leaving.close() }

  private struct Parts: Sendable {
    var manager: ShardManager
    /// The tasks that run beside the manager until it has ended.
    var tasks: [@Sendable () async -> Void]
  }

  private func open() async throws(CoordinatorError) -> Parts {
    do { return try await parts() } catch { throw .store("\(error)") }
  }

  /// - Throws: why the store cannot be opened.
  private func parts() async throws -> Parts {
    let subjects = Subjects(cluster: configuration.cluster, shardCount: configuration.shardCount)
    var options = configuration.journal
    options.shardCount = configuration.shardCount
    var trail = AuditOptions(role: "coordinator")
    trail.createsMissing = true
    (trail.replicas, trail.inMemory) = (options.replicas, options.inMemory)
    let retry = StoreRetryPolicy(clock: clock, limit: configuration.storeTimeout) {
      [logger] error in
      logger.notice("waits for the store", metadata: .keys([.error: "\(error)"]))
    }
    func open(_ name: String, _ options: BucketOptions) async throws -> Bus.BucketType {
      try await retry { try await bus.openBucket(name, options) }
    }
    let buckets = configuration.buckets
    let journal = try await retry { [options] in try await bus.openJournal(options) }
    let leases = try await open(subjects.leaseBucket, buckets.small)
    let registrations = try await open(subjects.registrationBucket, buckets)
    let checkpoints = CheckpointStore(bucket: try await open(subjects.checkpointStream, buckets))
    let tokens = try await open(subjects.tokenBucket, buckets)
    let revocations = try await open(subjects.revocationBucket, Revocation.bucket(buckets))
    let audit = try await retry { [trail] in try await bus.openAudit(trail) }
    let pushQueue = try await retry { try await bus.openWorkQueue(configuration.pushQueue) }
    let records =
      configuration.records.isOn ? try await bus.openRecords(configuration.records) : nil
    let histories =
      configuration.history.isOn ? try await bus.openHistories(configuration.history) : nil
    let events = try await appStream(.events, configuration.events)
    let deadLetters =
      events == nil ? nil : try await appStream(.deadLetters, configuration.deadLetters)

    let checkpointer = Checkpointer(
      store: checkpoints, journal: journal, shardCount: configuration.shardCount, metrics: metrics,
      logger: logger)
    let inbox = ShardManagerInbox(
      timers: clock.timers, heartbeatsDropped: metrics.heartbeatsDropped,
      requestsDropped: metrics.announceRequestsDropped)
    let workers = (0..<configuration.workers).map { index in
      ShardWorker(
        index: index, configuration: configuration, subjects: subjects, bus: bus, journal: journal,
        registrations: registrations, tokens: tokens, pushQueue: pushQueue,
        records: records, events: events, histories: histories,
        peer: ShardHash.peer(of: incarnation, index), clock: clock, metrics: metrics,
        logger: logger, thread: thread(ofWorker: index), exchange: exchange,
        writeCheckpoint: { checkpointer.offer($0) },
        report: { inbox.offer(.worker($0)) })
    }
    let manager = ShardManager(
      ShardClaim.Dependencies(
        configuration: configuration, incarnation: incarnation, subjects: subjects, bus: bus,
        journal: journal, checkpoints: checkpoints, leases: leases, registrations: registrations,
        clock: clock, metrics: metrics, logger: logger),
      workers: workers, inbox: inbox)
    let admin = AdminResponder(
      configuration: configuration, subjects: subjects, bus: bus, journal: journal,
      manager: manager, metrics: metrics, logger: logger)
    let dispatcher = OrderDispatcher(
      bus: bus, subjects: subjects, audit: audit, node: configuration.nodeID, role: "coordinator",
      logger: logger,
      handlers: OrderDispatcher.draining(configuration.nodeID) { request in
        switch request.action {
        case .drain: manager.drain()
        case .resume: manager.resume()
        }
      }.merging(["revoke": revoking(in: revocations)]) { $1 })
    let depths = PushDepths(queue: pushQueue, clock: clock, metrics: registry)
    addReadings(inbox, checkpointer, admin, workers)
    var tasks: [@Sendable () async -> Void] = [
      checkpointer.run, admin.run, dispatcher.run, depths.run,
    ]
    func keep(_ what: String, _ create: @escaping @Sendable (Bool) async throws -> Void) {
      tasks.append(StreamKeeper(what: what, create: create, clock: clock, logger: logger).run)
    }
    if let records { keep("call records", records.create(followingLimits:)) }
    if let histories { keep("histories", histories.create(followingLimits:)) }
    if let events {
      keep("events", events.create(followingLimits:))
      keep("webhooks' progress") { [bus] _ in
        _ = try await bus.openBucket(subjects.webhookBucket, buckets.small)
      }
    }
    if let deadLetters { keep("dead letters", deadLetters.create(followingLimits:)) }
    return Parts(manager: manager, tasks: workers.map { worker in { await worker.run() } } + tasks)
  }

  /// nil where nothing is kept in it.
  private func appStream(
    _ kind: AppStreamKind, _ options: AppStreamOptions
  ) async throws -> Bus.AppStreamType? {
    options.isOn ? try await bus.openAppStream(kind, options) : nil
  }

  /// nil: a thread of its own.
  private func thread(ofWorker index: Int) -> ActorThread? {
    if !threads.isEmpty { return threads[index % threads.count] }
    return configuration.workers == 1 || configuration.workersShareThread ? bus.actorThread : nil
  }

  private func addReadings(
    _ inbox: ShardManagerInbox, _ checkpointer: Checkpointer, _ admin: AdminResponder,
    _ workers: [ShardWorker]
  ) {
    registry.reading(
      "callmesh_coordinator_manager_inbox_depth",
      "Events that wait for the manager of the node's shards."
    ) { [weak inbox] in Double(inbox?.depth ?? 0) }
    registry.reading(
      "callmesh_coordinator_checkpoint_queue_depth", "Checkpoints that wait to be written."
    ) { [weak checkpointer] in Double(checkpointer?.waiting ?? 0) }
    registry.reading(
      "callmesh_coordinator_admin_queue_depth", "Operators' questions that wait for an answer."
    ) { [weak admin] in Double(admin?.questionsWaiting ?? 0) }
    registry.reading(
      "callmesh_coordinator_admin_questions_dropped_total",
      "Operators' questions refused by the full queue.", type: "counter"
    ) { [weak admin] in Double(admin?.questionsDropped ?? 0) }
    for worker in workers {
      let (inbox, busy) = (worker.inbox, worker.busy)
      let labels = [("worker", "\(worker.index)")]
      registry.reading(
        "callmesh_coordinator_worker_busy_ratio",
        "Share of time that a worker works instead of waiting.", labels: labels
      ) { busy.share }
      registry.reading(
        "callmesh_coordinator_worker_inbox_depth", "Events that wait for a worker.", labels: labels
      ) { Double(inbox.depth) }
    }
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
}
