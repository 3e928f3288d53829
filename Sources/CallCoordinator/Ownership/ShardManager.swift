package import CallBus
internal import CallCore
internal import CallTelemetry
package import CallWire
internal import Logging

/// Decides which shards this node owns: sends and receives heartbeats, watches the leases, and claims and releases
/// shards in child tasks.
///
/// All that it knows is a guess, and no guarantee depends on it: leases change by compare-and-set, and a shard's
/// journal accepts records of one owner only.
package actor ShardManager {
  enum Hold: Equatable {
    case none
    case claiming
    case serving(ShardTerm, leaseRevision: UInt64)
    case releasing(ShardTerm)
    case yielding
    /// This node cannot read the store. Retried at intervals.
    case stopped(ShardClaim.Unreadable)
  }

  struct Shard {
    var record = LeaseRecord()
    var seenRevision: UInt64 = 0
    var hold = Hold.none
    /// No claim before this time.
    var retryAt = Timestamp(microseconds: 0)
    var desired: String?
    /// The cause of its last stop, kept so that it is logged once.
    var reported: ShardClaim.Unreadable?
    /// Whether it counts as stopped, which it does also during a retry.
    var isStopped = false
  }

  nonisolated let dependencies: ShardClaim.Dependencies
  nonisolated let workers: [ShardWorker]
  nonisolated let inbox: ShardManagerInbox
  /// Closed when `run` has done its work.
  package nonisolated let ended = Inbox<Never>(capacity: 1)

  var shards: [Shard]
  var membership: Membership
  package internal(set) var state = NodeState.starting
  private var settlesAt: Timestamp
  private var heartbeatAt = Timestamp(microseconds: 0)
  var shutdownDeadline = Timestamp.distantFuture
  /// Whether `run` ends once every shard is given up; a node that only drains stays.
  private var isEnding = false
  var jobs: [ShardManagerJob] = []
  var claimsRunning = 0
  var handovers: HandoverThrottle
  /// Terms that were lost before the manager learnt that they were claimed.
  var lostTerms: Set<ShardTerm> = []
  var failure: CoordinatorError?
  /// Since when the bus is connected; nil while it is not.
  var connectedSince: Timestamp?
  var reconnects: UInt64 = 0
  var namesake: (incarnation: UInt64, lastSeen: Timestamp)?
  var journalFormat = ClusterCodec.format
  var unreadableHeartbeats = LogThrottle()
  var otherShardCounts = LogThrottle()

  nonisolated var configuration: CoordinatorConfiguration { dependencies.configuration }
  nonisolated var incarnation: UInt64 { dependencies.incarnation }
  nonisolated var subjects: Subjects { dependencies.subjects }
  nonisolated var bus: any MessageBus { dependencies.bus }
  nonisolated var logger: Logger { dependencies.logger }

  package init(
    _ dependencies: ShardClaim.Dependencies, workers: [ShardWorker], inbox: ShardManagerInbox
  ) {
    self.dependencies = dependencies
    self.workers = workers
    self.inbox = inbox
    let (configuration, now) = (dependencies.configuration, dependencies.clock.now())
    shards = Array(repeating: Shard(), count: configuration.shardCount)
    membership = Membership(
      timeout: configuration.leaseTimeout, probing: configuration.probing, now: now)
    handovers = HandoverThrottle(
      atOnce: configuration.releasesAtOnce, interval: configuration.rebalanceInterval)
    settlesAt = now + configuration.settleTime
  }

  package nonisolated func worker(of shard: Int) -> ShardWorker { workers[shard % workers.count] }

  /// The edges that a shard's new owner must know.
  package var edges: KnownEdges {
    var missing: [UInt64: Timestamp] = [:]
    for edge in membership.missingEdges {
      missing[edge.edge] = edge.at + configuration.awaits(edge.why)
    }
    return KnownEdges(living: membership.livingEdges, missing: missing)
  }

  /// The shards whose store this node cannot read, and why.
  package var stoppedShards: [(shard: Int, what: ShardClaim.Unreadable)] {
    shards.enumerated().compactMap { shard, entry in
      entry.isStopped ? entry.reported.map { (shard, $0) } : nil
    }
  }

  /// Begins to give everything up; `run` ends when that is done, or after `shutdownTimeout`.
  package nonisolated func shutDown() { inbox.offer(.shutDown) }

  /// Gives everything up, and stays; `resume` undoes that.
  package nonisolated func drain() { inbox.offer(.drain) }
  package nonisolated func resume() { inbox.offer(.resume) }

  // MARK: Running

  /// - Throws: `CoordinatorError`, if the node must not run.
  package func run() async throws {
    defer { ended.close() }
    let subscriptions = try await listen()
    defer { for subscription in subscriptions { subscription.cancel() } }
    await withDiscardingTaskGroup { group in
      while !Task.isCancelled, failure == nil {
        let events = await inbox.events.next(until: dependencies.clock.instant(at: nextDeadline))
        if Task.isCancelled { break }
        let now = dependencies.clock.now()
        for event in events { handle(event, now: now) }
        keepTime(now: now)
        handovers.expire(now: now)
        evaluate(now: now)
        for job in jobs { group.addTask { await self.perform(job) } }
        jobs.removeAll(keepingCapacity: true)
        if isEnding, isDone(now: now) { break }
      }
      if isEnding, !Task.isCancelled { sendHeartbeat(.gone) }
      // The node ends the workers now; until then a release may still wait for one.
      ended.close()
      group.cancelAll()
    }
    if let failure { throw failure }
  }

  private var nextDeadline: Timestamp {
    var next = min(heartbeatAt, state == .starting ? settlesAt : shutdownDeadline)
    next = min(next, membership.nextProbe)
    // A shard that waits for its turn or for a retry.
    let now = dependencies.clock.now()
    if let turn = handovers.waits(now: now) { next = min(next, turn) }
    for shard in shards where shard.retryAt > now { next = min(next, shard.retryAt) }
    return next
  }

  private func listen() async throws(CoordinatorError) -> [any BusSubscription] {
    let inbox = inbox
    let retry = StoreRetryPolicy(clock: dependencies.clock, limit: configuration.storeTimeout) {
      [logger] error in
      logger.notice("waits for the store", metadata: .keys([.error: "\(error)"]))
    }
    do {
      let heartbeats = try [nil, NodeRole.edge, .push].map { role in
        try bus.subscribe(role.map { subjects.heartbeats(of: "\($0)") } ?? subjects.heartbeats) {
          inbox.offerHeartbeat($0.bytes, from: role)
        }
      }
      let requests = try bus.subscribe(subjects.announceRequests) {
        inbox.offerAnnounceRequest($0.bytes)
      }
      let leases = try await retry {
        try await dependencies.leases.watch(">") { inbox.offer(.lease($0)) }
      }
      for entry in try await retry({ try await dependencies.leases.entries(matching: ">") }) {
        inbox.offer(.lease(entry))
      }
      let address = try bus.subscribe(subjects.coordinator(incarnation)) { _ in }
      return heartbeats + [requests, leases, address]
    } catch {
      throw .store("\(error)")
    }
  }

  private func keepTime(now: Timestamp) {
    if state == .starting, settlesAt <= now {
      state = .serving
      heartbeatAt = now
      // By now the other nodes are known.
      if isFirstSinceOthers { changed(membership.beginsWithoutKnowing(now: now), now: now) }
      place()
      logger.info(
        "Serves the cluster.", metadata: .keys([.count: "\(membership.coordinators.count + 1)"]))
    }
    for probe in membership.probes(now: now) { jobs.append(.probe(probe)) }
    guard heartbeatAt <= now else { return }
    checkConnection(now: now)
    heartbeatAt = now + configuration.heartbeatInterval
    sendHeartbeat(state)
  }

  /// Whether shards were served before, and no node is left that knows which edges are silent.
  private var isFirstSinceOthers: Bool {
    !membership.coordinators.values.contains { $0.state == .serving }
      && shards.contains { $0.record.lease != nil }
  }

  private func isDone(now: Timestamp) -> Bool {
    if shutdownDeadline <= now {
      logger.error(
        "Not every shard could be released in time; others claim them when this node is gone.",
        metadata: .keys([.count: "\(shards.count { $0.hold != .none })"]))
      return true
    }
    return shards.allSatisfy { shard in
      switch shard.hold {
      case .none, .stopped: true
      case .claiming, .serving, .releasing, .yielding: false
      }
    }
  }

  // MARK: Events

  private func handle(_ event: ShardManagerEvent, now: Timestamp) {
    switch event {
    case .heartbeat(let bytes, let role): received(bytes, from: role, now: now)
    case .lease(let entry): leaseSeen(entry, now: now)
    case .leaseRead(let shard, let entry): leaseRead(shard, entry, now: now)
    case .probed(let probe, let listens):
      if !listens { checkConnection(now: now) }
      changed(
        membership.probed(probe, listens: listens, connectedSince: connectedSince, now: now),
        now: now)
    case .worker(.steppedDown(let term)): steppedDown(term, now: now)
    case .worker(.edgeSeen(let edge)):
      changed(membership.edgeSeen(edge, now: now), now: now)
    case .claimed(let shard, let result): claimed(shard, result, now: now)
    case .released(let shard, let ok): released(shard, ok, now: now)
    case .recovered(let term):
      // Workers remember the epoch of each shard, so they get no shards that do not exist.
      guard shards.indices.contains(term.shard) else { break }
      handovers.recovered(term)
      for worker in workers { worker.inbox.offer(.recovered(term)) }
    case .yielded(let shard):
      shards[shard].hold = .none
      shards[shard].retryAt = now + configuration.claimRetry
    case .drain:
      guard state == .serving else { return }
      change(to: .leaving, now: now)
      logger.notice("Drains: gives its shards up, and stays.")
    case .resume:
      guard state == .leaving, !isEnding else { return }
      change(to: .serving, now: now)
      logger.notice("Serves the cluster again.")
    case .shutDown:
      guard !isEnding else { return }
      isEnding = true
      shutdownDeadline = now + configuration.shutdownTimeout
      change(to: .leaving, now: now)
      logger.info("Leaves the cluster: gives its shards up.")
    }
  }

  private func change(to state: NodeState, now: Timestamp) {
    self.state = state
    heartbeatAt = now
    place()
  }
}
