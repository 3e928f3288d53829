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
package actor ShardKeeper {
  package struct Dependencies: Sendable {
    package var claim: ShardClaim.Dependencies
    package var workers: [ShardWorker]
    package var inbox: KeeperInbox
    package init(
      claim: ShardClaim.Dependencies, workers: [ShardWorker], inbox: KeeperInbox
    ) {
      self.claim = claim
      self.workers = workers
      self.inbox = inbox
    }
  }

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

  nonisolated let with: ShardClaim.Dependencies
  nonisolated let workers: [ShardWorker]
  nonisolated let inbox: KeeperInbox
  /// Closed when `run` has nothing more to do.
  package nonisolated let ended = Inbox<Never>(capacity: 1)

  var shards: [Shard]
  var membership: Membership
  package internal(set) var state = NodeState.starting
  private var settlesAt: Timestamp
  private var heardItselfAt: Timestamp
  private var claimsFrom = Timestamp(microseconds: 0)
  private var heartbeatAt = Timestamp(microseconds: 0)
  private var shutdownDeadline = Timestamp.distantFuture
  /// `run` ends when every shard is given up; a node that only drains stays.
  private var isEnding = false
  var jobs: [KeeperJob] = []
  var claimsRunning = 0
  var pace: ReleasePace
  /// Terms that were lost before the keeper heard that they were won.
  var lostTerms: Set<ShardTerm> = []
  var failure: CoordinatorError?
  /// Since when the bus has its connection; nil while it has none.
  private var connectedSince: Timestamp?
  private var reconnects: UInt64 = 0
  private var namesake: (incarnation: UInt64, lastHeard: Timestamp)?
  private var mayPush = true
  private var unreadableHeartbeats = LogWindow()
  private var otherShardCounts = LogWindow()

  var configuration: CoordinatorConfiguration { with.configuration }

  package init(_ dependencies: Dependencies) {
    with = dependencies.claim
    workers = dependencies.workers
    inbox = dependencies.inbox
    let now = with.clock.now()
    shards = Array(repeating: Shard(), count: with.configuration.shardCount)
    membership = Membership(
      timeout: with.configuration.leaseTimeout, probing: with.configuration.probing, now: now)
    pace = ReleasePace(
      atOnce: with.configuration.releasesAtOnce, interval: with.configuration.rebalanceInterval)
    settlesAt = now + with.configuration.settleTime
    heardItselfAt = now
  }

  package nonisolated func worker(of shard: Int) -> ShardWorker {
    workers[shard % workers.count]
  }

  package var livingEdges: Set<UInt64> { membership.livingEdges }

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
        let events = await inbox.events.next(until: with.clock.instant(at: next))
        if Task.isCancelled { break }
        let now = with.clock.now()
        for event in events { take(event, now: now) }
        keepTime(now: now)
        evaluate(now: now)
        for job in jobs { group.addTask { await self.perform(job) } }
        jobs.removeAll(keepingCapacity: true)
        if isEnding, isDone(now: now) { break }
      }
      if isEnding, !Task.isCancelled { say(.gone) }
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
    let now = with.clock.now()
    if let turn = pace.waits(now: now) { next = min(next, turn) }
    for shard in shards where shard.retryAt > now { next = min(next, shard.retryAt) }
    return next
  }

  private func listen() async throws(CoordinatorError) -> [any BusSubscription] {
    let inbox = inbox
    let limit = with.configuration.storePatience
    let patiently = StorePatience(clock: with.clock, limit: limit) { [with] error in
      with.logger.notice("waits for the store", metadata: .keys([.error: "\(error)"]))
    }
    do {
      let heartbeats = try with.bus.subscribe(with.subjects.heartbeats) { message in
        inbox.heard(message.bytes)
      }
      let leases = try await patiently {
        try await with.leases.watch(">") { inbox.offer(.lease($0)) }
      }
      for entry in try await patiently({ try await with.leases.entries(matching: ">") }) {
        inbox.offer(.lease(entry))
      }
      let address = try with.bus.subscribe(Self.address(with.subjects, with.incarnation)) { _ in }
      return [heartbeats, leases, address]
    } catch {
      throw .store("\(error)")
    }
  }

  /// Where a coordinator listens for nothing but being there: while nobody listens, the server says
  /// so to whoever asks. An edge's address is where its deliveries go; what is empty it does not mind.
  private static func address(_ subjects: Subjects, _ incarnation: UInt64) -> String {
    "\(subjects.cluster).coordinator.\(incarnation)"
  }

  nonisolated func probe(_ probe: Membership.Probe) async {
    let subject =
      probe.isEdge
      ? with.subjects.edge(probe.incarnation) : Self.address(with.subjects, probe.incarnation)
    var listens = true
    do {
      // Nobody answers. Who is not there is known at once.
      _ = try await with.bus.request(subject, [], timeout: .milliseconds(500))
    } catch BusError.noResponders {
      listens = false
    } catch {}
    inbox.offer(.probed(incarnation: probe.incarnation, listens: listens))
  }

  private func lookAtConnection(now: Timestamp) {
    let known = with.bus.statistics
    if !known.connected {
      connectedSince = nil
    } else if connectedSince == nil || known.reconnects != reconnects {
      connectedSince = now
    }
    reconnects = known.reconnects
  }

  private func keepTime(now: Timestamp) {
    if state == .starting, settlesAt <= now {
      state = .serving
      heartbeatAt = now
      // Now at the latest it is known who else is there.
      place()
      with.logger.info(
        "Serves the cluster.",
        metadata: .keys([.count: "\(membership.coordinators.count + 1) coordinators"]))
    }
    for probe in membership.probes(now: now) { jobs.append(.probe(probe)) }
    guard heartbeatAt <= now else { return }
    lookAtConnection(now: now)
    heartbeatAt = now + configuration.heartbeatInterval
    say(state)
    changed(membership.tick(now: now))
  }

  private func say(_ state: NodeState) {
    let heartbeat = Heartbeat(
      node: configuration.nodeID, role: .coordinator, incarnation: with.incarnation, state: state,
      version: configuration.version, shardCount: UInt32(configuration.shardCount))
    with.bus.publish(with.subjects.heartbeats, ClusterCodec.encode(heartbeat))
  }

  private func isDone(now: Timestamp) -> Bool {
    if shutdownDeadline <= now {
      with.logger.error(
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

  private func take(_ event: KeeperEvent, now: Timestamp) {
    switch event {
    case .heartbeat(let bytes): heard(bytes, now: now)
    case .lease(let entry): leaseSeen(entry, now: now)
    case .probed(let incarnation, let listens):
      if !listens { lookAtConnection(now: now) }
      changed(
        membership.probed(
          incarnation, listens: listens, connectedSince: connectedSince, now: now))
    case .worker(.serving): break
    case .worker(.steppedDown(let term, _)): steppedDown(term, now: now)
    case .worker(.heardFromEdge(let edge)):
      changed(membership.heardFromEdge(edge, now: now))
    case .claimed(let shard, let result): claimed(shard, result, now: now)
    case .released(let shard, let ok): released(shard, ok, now: now)
    case .yielded(let shard):
      shards[shard].hold = .none
      shards[shard].retryAt = now + configuration.claimRetry
    case .drain:
      guard state == .serving else { return }
      change(to: .leaving, now: now)
      with.logger.notice("Drains: gives its shards up, and stays.")
    case .resume:
      guard state == .leaving, !isEnding else { return }
      change(to: .serving, now: now)
      with.logger.notice("Serves the cluster again.")
    case .shutDown:
      guard !isEnding else { return }
      isEnding = true
      shutdownDeadline = now + configuration.shutdownTimeout
      change(to: .leaving, now: now)
      with.logger.info("Leaves the cluster: gives its shards up.")
    }
  }

  private func change(to state: NodeState, now: Timestamp) {
    self.state = state
    heartbeatAt = now
    place()
  }

  private func heard(_ bytes: [UInt8], now: Timestamp) {
    let heartbeat: Heartbeat
    do {
      heartbeat = try ClusterCodec.heartbeat(bytes)
    } catch {
      with.metrics.heartbeatsUnreadable.increment()
      if let times = unreadableHeartbeats.admit(now: now) {
        with.logger.warning(
          "Heartbeats that cannot be read were dropped.",
          metadata: .keys([.error: "\(error)", .count: "\(times)"]))
      }
      return
    }
    if heartbeat.role != .push, heartbeat.shardCount != UInt32(configuration.shardCount) {
      guard otherShardCounts.admit(now: now) != nil else { return }
      return with.logger.error(
        "A node with another number of shards is ignored: its users' calls would be lost.",
        metadata: .keys([.owner: "\(heartbeat.node)", .count: "\(heartbeat.shardCount)"]))
    }
    if heartbeat.role == .coordinator, heartbeat.node == configuration.nodeID {
      return heardOwnName(heartbeat, now: now)
    }
    changed(membership.heard(heartbeat, now: now))
  }

  private func heardOwnName(_ heartbeat: Heartbeat, now: Timestamp) {
    if heartbeat.incarnation == with.incarnation { return heardItself(now: now) }
    guard heartbeat.state != .gone else { return }
    namesake = (heartbeat.incarnation, now)
    // Of two that start together one goes on. A former incarnation that leaves is waited for.
    let yields =
      heartbeat.state == .serving
      || (heartbeat.state == .starting && heartbeat.incarnation < with.incarnation)
    if state == .starting, yields { failure = .nodeIDTaken(configuration.nodeID) }
  }

  /// Who does not hear itself hears nobody: that others fell silent means nothing then, and what
  /// they have is not claimed before they had the time to be heard again.
  private func heardItself(now: Timestamp) {
    if isDeaf(now: now) { claimsFrom = now + configuration.settleTime }
    heardItselfAt = now
  }

  private func isDeaf(now: Timestamp) -> Bool {
    (now - heardItselfAt).microseconds > configuration.leaseTimeout.microseconds / 2
  }

  func mayClaim(now: Timestamp) -> Bool { !isDeaf(now: now) && claimsFrom <= now }

  private func changed(_ events: [Membership.Event]) {
    for event in events {
      switch event {
      case .coordinatorsChanged:
        place()
        seeWhoReads()
      case .edgeJoined(let edge):
        with.logger.debug("An edge joined.", metadata: .keys([.edge: "\(edge)"]))
        // It may have been there, and silent, when this node took its shards.
        for worker in workers { worker.inbox.offer(.edgeReturned(edge)) }
      case .edgeLost(let edge):
        with.metrics.edgesLost.increment()
        with.logger.info(
          "An edge is gone, and its sessions with it.", metadata: .keys([.edge: "\(edge)"]))
        for worker in workers { worker.inbox.offer(.edgeLost(edge)) }
      case .edgeReturned(let edge):
        with.logger.warning(
          "An edge that was counted lost lives: all edges announce their sessions anew.",
          metadata: .keys([.edge: "\(edge)"]))
        for worker in workers { worker.inbox.offer(.edgeReturned(edge)) }
      case .edgeNameShared(let node):
        with.logger.error(
          "Two living edges have the same name; give every node a name of its own.",
          metadata: .keys([.owner: "\(node)"]))
      }
    }
  }

  /// What a coordinator could not read must not be written while it may come to own a shard.
  private func seeWhoReads() {
    let may = membership.allRead(ClusterCodec.pushFormat)
    guard may != mayPush else { return }
    mayPush = may
    with.logger.notice(
      may
        ? "Every coordinator reads pushes: sleeping devices are woken."
        : "A coordinator of an earlier version is there: sleeping devices are not woken.")
    for worker in workers { worker.inbox.offer(.mayPush(may)) }
  }

  /// Whether the holder of a lease may be at work.
  func view(_ lease: Lease?, now: Timestamp) -> Placement.LeaseView {
    guard let lease, !lease.released else { return .free }
    if lease.owner == configuration.nodeID {
      if lease.incarnation == with.incarnation { return .own }
      guard let namesake, namesake.incarnation == lease.incarnation else { return .free }
      return now < namesake.lastHeard + configuration.leaseTimeout ? .other : .free
    }
    let lives = membership.isLiving(
      owner: lease.owner, incarnation: lease.incarnation, now: now)
    return lives ? .other : .free
  }

  /// Computes anew who should own what.
  private func place() {
    let candidates = candidates()
    for shard in shards.indices { place(shard, candidates) }
  }

  func placeAnew(_ shard: Int) { place(shard, candidates()) }

  private func candidates() -> [(node: String, incarnation: UInt64)] {
    var candidates = membership.coordinators.values
      .filter { $0.state == .starting || $0.state == .serving }
      .map { ($0.node, $0.incarnation) }
    if state != .leaving { candidates.append((configuration.nodeID, with.incarnation)) }
    return candidates
  }

  private func place(_ shard: Int, _ candidates: [(node: String, incarnation: UInt64)]) {
    let refused = shards[shard].record.lease?.refusedBy ?? []
    var able = candidates
    if !refused.isEmpty {
      able.removeAll { refused.contains($0.incarnation) }
      // Where nobody can read it, the one that should try again is the one that should have it.
      if able.isEmpty { able = candidates }
    }
    shards[shard].desired = Placement.desired(shard: shard, candidates: able.map(\.node))
  }

  /// Starts what placement and leases ask for, as far as the limits allow.
  private func evaluate(now: Timestamp) {
    guard state != .starting else { return }
    for shard in shards.indices { evaluate(shard, now: now) }
  }

  private func evaluate(_ shard: Int, now: Timestamp) {
    let entry = shards[shard]
    var holds = false
    switch entry.hold {
    case .claiming, .releasing, .yielding: return
    case .serving: holds = true
    case .stopped:
      if entry.record.unreadable != nil { return }
      if entry.desired != configuration.nodeID { unstop(shard) }
      if entry.retryAt > now { return }
    case .none:
      if entry.isStopped, entry.desired != configuration.nodeID { unstop(shard) }
      if let reason = entry.record.unreadable {
        return stop(shard, ShardClaim.Unreadable(.lease, reason), now: now)
      }
    }
    let serves = entry.desired.flatMap { membership.coordinators[$0]?.state } == .serving
    let lease = view(entry.record.lease, now: now)
    let decision = Placement.decide(
      node: configuration.nodeID, holds: holds, desired: entry.desired,
      desiredServes: serves || state == .leaving, lease: lease,
      standsIn: !serves && lease == .free && standsIn(entry.record.lease, shard))
    switch decision {
    case .keep: return
    case .claim: startClaim(shard, now: now)
    case .release:
      startRelease(
        shard, deadline: min(releaseDeadline(now), shutdownDeadline), now: now)
    case .yield: startYield(shard, now: now)
    }
  }

  /// A shard whose owner died is not left waiting for a node that has yet to start, be it the same one
  /// that comes back: calls ring there. What nobody ever owned, or was given up in good order, can
  /// wait, so that nodes which start together share the shards from the start.
  private func standsIn(_ lease: Lease?, _ shard: Int) -> Bool {
    guard state == .serving, let lease, !lease.released, lease.refusedBy.isEmpty else {
      return false
    }
    let serving = membership.coordinators.values.filter { $0.state == .serving }.map(\.node)
    return Placement.desired(shard: shard, candidates: serving + [configuration.nodeID])
      == configuration.nodeID
  }

  private func releaseDeadline(_ now: Timestamp) -> Timestamp {
    now + configuration.releaseTimeout
  }
}
