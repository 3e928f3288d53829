package import CallBus
internal import CallCore
internal import CallTelemetry
package import CallWire
internal import Logging

/// Decides which shards this node has: says that the node lives, listens to who else does, watches
/// the leases, and has shards claimed and released in child tasks.
///
/// Everything it knows is a guess. What it may not get wrong, it does not decide: leases change by
/// compare-and-set, and a shard's journal takes records of one owner only.
package actor ShardManager {
  enum Hold: Equatable {
    case none
    case claiming
    case serving(ShardTerm, leaseRevision: UInt64)
    case releasing(ShardTerm)
    case yielding
    /// The store holds what this node cannot read. Tried again now and then.
    case stopped(ShardClaim.Unreadable)
  }

  struct Shard {
    var record = LeaseRecord()
    var seenRevision: UInt64 = 0
    var hold = Hold.none
    /// No claim before.
    var retryAt = Timestamp(microseconds: 0)
    var desired: String?
    /// What stopped it last, so that it is reported once.
    var reported: ShardClaim.Unreadable?
    /// Counted as stopped, also while it is being tried again.
    var isStopped = false
  }

  nonisolated let dependencies: ShardClaim.Dependencies
  nonisolated let workers: [ShardWorker]
  nonisolated let inbox: ShardManagerInbox
  /// Closed when `run` has nothing more to do.
  package nonisolated let ended = Inbox<Never>(capacity: 1)

  var shards: [Shard]
  var membership: Membership
  package internal(set) var state = NodeState.starting
  private var settlesAt: Timestamp
  private var heartbeatAt = Timestamp(microseconds: 0)
  var shutdownDeadline = Timestamp.distantFuture
  /// `run` ends when every shard is given up; a node that only drains stays.
  private var isEnding = false
  var jobs: [ShardManagerJob] = []
  var claimsRunning = 0
  var handovers: HandoverThrottle
  /// Terms that were lost before the manager heard that they were won.
  var lostTerms: Set<ShardTerm> = []
  var failure: CoordinatorError?
  /// Since when the bus has its connection; nil while it has none.
  var connectedSince: Timestamp?
  var reconnects: UInt64 = 0
  var namesake: (incarnation: UInt64, lastSeen: Timestamp)?
  var mayPush = true
  var unreadableHeartbeats = LogThrottle()
  var otherShardCounts = LogThrottle()

  var configuration: CoordinatorConfiguration { dependencies.configuration }

  package init(
    _ dependencies: ShardClaim.Dependencies, workers: [ShardWorker], inbox: ShardManagerInbox
  ) {
    self.dependencies = dependencies
    self.workers = workers
    self.inbox = inbox
    let now = dependencies.clock.now()
    shards = Array(repeating: Shard(), count: dependencies.configuration.shardCount)
    membership = Membership(
      timeout: dependencies.configuration.leaseTimeout, probing: dependencies.configuration.probing,
      now: now)
    handovers = HandoverThrottle(
      atOnce: dependencies.configuration.releasesAtOnce,
      interval: dependencies.configuration.rebalanceInterval)
    settlesAt = now + dependencies.configuration.settleTime
  }

  package nonisolated func worker(of shard: Int) -> ShardWorker {
    workers[shard % workers.count]
  }

  /// The edges as a shard's new owner needs them.
  package var edges: KnownEdges {
    var missing: [UInt64: Timestamp] = [:]
    for edge in membership.missingEdges {
      missing[edge.edge] = edge.at + configuration.awaits(edge.why)
    }
    return KnownEdges(living: membership.livingEdges, missing: missing)
  }

  /// Shards whose store this node cannot read, with the reason.
  package var stoppedShards: [(shard: Int, what: ShardClaim.Unreadable)] {
    shards.enumerated().compactMap { shard, entry in
      entry.isStopped ? entry.reported.map { (shard, $0) } : nil
    }
  }

  /// Begins to give everything up; `run` ends when that is done, or its time is over.
  package nonisolated func shutDown() { inbox.offer(.shutDown) }

  /// Gives everything up, and stays; `resume` takes that back.
  package nonisolated func drain() { inbox.offer(.drain) }
  package nonisolated func resume() { inbox.offer(.resume) }

  // MARK: Running

  /// - Throws: `CoordinatorError`, when the node must not run.
  package func run() async throws {
    defer { ended.close() }
    let subscriptions = try await listen()
    defer { for subscription in subscriptions { subscription.cancel() } }
    await withDiscardingTaskGroup { group in
      while !Task.isCancelled, failure == nil {
        let next = nextDeadline
        let events = await inbox.events.next(until: dependencies.clock.instant(at: next))
        if Task.isCancelled { break }
        let now = dependencies.clock.now()
        for event in events { take(event, now: now) }
        keepTime(now: now)
        handovers.expire(now: now)
        evaluate(now: now)
        for job in jobs { group.addTask { await self.perform(job) } }
        jobs.removeAll(keepingCapacity: true)
        if isEnding, isDone(now: now) { break }
      }
      if isEnding, !Task.isCancelled { sendHeartbeat(.gone) }
      // Whoever owns the workers ends them now; until then a release may still wait for one.
      ended.close()
      group.cancelAll()
    }
    if let failure { throw failure }
  }

  private var nextDeadline: Timestamp {
    var next = min(heartbeatAt, state == .starting ? settlesAt : shutdownDeadline)
    next = min(next, membership.nextProbe)
    // A shard that waits for its turn or for another try.
    let now = dependencies.clock.now()
    if let turn = handovers.waits(now: now) { next = min(next, turn) }
    for shard in shards where shard.retryAt > now { next = min(next, shard.retryAt) }
    return next
  }

  private func listen() async throws(CoordinatorError) -> [any BusSubscription] {
    let inbox = inbox
    let limit = dependencies.configuration.storeTimeout
    let retry = StoreRetryPolicy(clock: dependencies.clock, limit: limit) { [dependencies] error in
      dependencies.logger.notice("waits for the store", metadata: .keys([.error: "\(error)"]))
    }
    do {
      var heartbeats = [
        try dependencies.bus.subscribe(dependencies.subjects.heartbeats) {
          inbox.offerHeartbeat($0.bytes, from: nil)
        }
      ]
      for role in [NodeRole.edge, .push] {
        heartbeats.append(
          try dependencies.bus.subscribe(dependencies.subjects.heartbeats(of: "\(role)")) {
            inbox.offerHeartbeat($0.bytes, from: role)
          })
      }
      let requests = try dependencies.bus.subscribe(dependencies.subjects.announceRequests) {
        message in
        inbox.offerAnnounceRequest(message.bytes)
      }
      let leases = try await retry {
        try await dependencies.leases.watch(">") { inbox.offer(.lease($0)) }
      }
      for entry in try await retry({ try await dependencies.leases.entries(matching: ">") }) {
        inbox.offer(.lease(entry))
      }
      let address = try dependencies.bus.subscribe(
        dependencies.subjects.coordinator(dependencies.incarnation)
      ) { _ in }
      return heartbeats + [requests, leases, address]
    } catch {
      throw .store("\(error)")
    }
  }

  private func keepTime(now: Timestamp) {
    if state == .starting, settlesAt <= now {
      state = .serving
      heartbeatAt = now
      // Now at the latest it is known who else is there.
      if isFirstSinceOthers { changed(membership.beginsWithoutKnowing(now: now), now: now) }
      place()
      dependencies.logger.info(
        "Serves the cluster.",
        metadata: .keys([.count: "\(membership.coordinators.count + 1)"]))
    }
    for probe in membership.probes(now: now) { jobs.append(.probe(probe)) }
    guard heartbeatAt <= now else { return }
    checkConnection(now: now)
    heartbeatAt = now + configuration.heartbeatInterval
    sendHeartbeat(state)
  }

  /// Shards were served before, and nobody lives who could tell which edges are silent.
  private var isFirstSinceOthers: Bool {
    !membership.coordinators.values.contains { $0.state == .serving }
      && shards.contains { $0.record.lease != nil }
  }

  private func isDone(now: Timestamp) -> Bool {
    if shutdownDeadline <= now {
      dependencies.logger.error(
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

  private func take(_ event: ShardManagerEvent, now: Timestamp) {
    switch event {
    case .heartbeat(let bytes, let role): received(bytes, from: role, now: now)
    case .lease(let entry): leaseSeen(entry, now: now)
    case .probed(let incarnation, let listens):
      if !listens { checkConnection(now: now) }
      changed(
        membership.probed(
          incarnation, listens: listens, connectedSince: connectedSince, now: now), now: now)
    case .worker(.serving): break
    case .worker(.steppedDown(let term, _)): steppedDown(term, now: now)
    case .worker(.edgeSeen(let edge)):
      changed(membership.edgeSeen(edge, now: now), now: now)
    case .claimed(let shard, let result): claimed(shard, result, now: now)
    case .released(let shard, let ok): released(shard, ok, now: now)
    case .recovered(let term): handovers.recovered(term)
    case .yielded(let shard):
      shards[shard].hold = .none
      shards[shard].retryAt = now + configuration.claimRetry
    case .drain:
      guard state == .serving else { return }
      change(to: .leaving, now: now)
      dependencies.logger.notice("Drains: gives its shards up, and stays.")
    case .resume:
      guard state == .leaving, !isEnding else { return }
      change(to: .serving, now: now)
      dependencies.logger.notice("Serves the cluster again.")
    case .shutDown:
      guard !isEnding else { return }
      isEnding = true
      shutdownDeadline = now + configuration.shutdownTimeout
      change(to: .leaving, now: now)
      dependencies.logger.info("Leaves the cluster: gives its shards up.")
    }
  }

  private func change(to state: NodeState, now: Timestamp) {
    self.state = state
    heartbeatAt = now
    place()
  }
}
