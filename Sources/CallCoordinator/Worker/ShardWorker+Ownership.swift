internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// How a shard comes and goes.
extension ShardWorker {
  /// Subscribes to everything that is sent to the shard. What arrives waits until the shard is recovered.
  func beginRecovery(_ term: ShardTerm) {
    do {
      recovering[term.shard] = RecoveringShard(term: term, subscriptions: try subscribe(term.shard))
    } catch {
      // `adopt` finds no recovery under way, and gives the shard up.
      dependencies.logger.warning(
        "A shard's commands cannot be subscribed to.",
        metadata: .keys([.shard: "\(term.shard)", .error: "\(error)"]))
    }
  }

  private func subscribe(_ shard: Int) throws -> [any BusSubscription] {
    let inbox = inbox
    let (bus, subjects) = (dependencies.bus, dependencies.subjects)
    var made: [any BusSubscription] = []
    do {
      for source in CommandSource.allCases {
        made.append(
          try bus.subscribe(source.subject(of: shard, subjects)) { message in
            inbox.offerCommands(shard: shard, message.bytes, from: source)
          })
      }
      made.append(
        try bus.subscribe(subjects.announceDone(shard: shard)) { message in
          // An unreadable one is ignored: the wait for announcements has a deadline.
          guard let done = try? ClusterCodec.announceDone(message.bytes) else { return }
          inbox.offer(.announceDone(shard: shard, done))
        })
    } catch {
      for subscription in made { subscription.cancel() }
      throw error
    }
    return made
  }

  /// Takes over a recovered shard, and asks the edges for its users' sessions.
  func adopt(_ recovered: RecoveredShard, now: Timestamp) {
    guard recovering[recovered.term.shard]?.term == recovered.term,
      let waiting = endRecovery(recovered.term.shard)
    else {
      // Or its claim would count as a success for ever.
      return dependencies.report(
        .steppedDown(recovered.term, reason: "its recovery was abandoned"))
    }
    let configuration = dependencies.configuration
    knownEdges.formUnion(recovered.edges.living)
    let timeout =
      recovered.edges.living.isEmpty
      ? configuration.announceTimeoutWithoutEdges : configuration.announceTimeout
    // Without a known edge there is nobody to wait for but those that are not known yet: 0 is no
    // edge's number.
    let shard = HeldShard(
      term: recovered.term, machine: recovered.machine,
      pipeline: CommitPipeline(
        epoch: recovered.term.epoch, writer: configuration.writer,
        lastSequence: recovered.sequence, limits: configuration.pipelineLimits),
      journalEnd: recovered.journalEnd,
      phase: .announcing(
        until: now + timeout,
        awaiting: recovered.edges.living.isEmpty ? [0] : recovered.edges.living),
      subscriptions: waiting.subscriptions, tail: recovered.tail,
      checkpointPolicy: configuration.checkpointPolicy,
      registrations: RegistrationWrites(revisions: recovered.registrationRevisions))
    held[shard.number] = shard
    shard.machine.mayPush = mayPush
    for (edge, until) in recovered.edges.missing {
      shard.machine.edgeMissing(edge, until: until, now: now)
    }
    shard.afterLoss = recovered.afterLoss
    shard.pausedSince =
      recovered.releasedAt.map { HeldShard.Pause(since: $0, isPlanned: true) }
      ?? recovered.lostSince.map { HeldShard.Pause(since: $0, isPlanned: false) }
    dependencies.metrics.shards.add(1)
    for batch in waiting.batches {
      decodeAndTake(batch.bytes, shard, from: batch.source, now: now)
    }
    for (edge, until) in waiting.lostEdges.sorted(by: { $0.key < $1.key }) {
      edgeLost(edge, awaitedUntil: until, shard, now: now)
    }
    askForSessions(shard)
    touch(shard.number)
  }

  /// Every edge has announced its sessions, or had the time to: the shard serves.
  /// - Parameter unannounced: edges of which no announcement came in time; 0 stands for those that nobody
  ///   knows.
  func begin(_ shard: HeldShard, unannounced: Set<UInt64>, now: Timestamp) {
    shard.phase = .serving
    let afterLoss = shard.afterLoss || !unannounced.isEmpty
    for edge in unannounced where edge != 0 {
      let until = now + dependencies.configuration.silentEdgeAwaited
      shard.machine.edgeMissing(edge, until: until, now: now)
    }
    decide(shard, now: now) { $0.begin(now: now, afterLoss: afterLoss, into: &$1) }
    let queued = shard.queue.takeAll()
    for command in queued where admits(command, shard, now: now) {
      decide(shard, now: now) { $0.handle(command, now: now, into: &$1) }
    }
    scheduleAsking(shard, now: now)
    countPause(shard, now: now)
    let counts = shard.machine.counts
    dependencies.logger.info(
      "Shard serves.",
      metadata: .keys([
        .shard: "\(shard.number)", .epoch: "\(shard.term.epoch)",
        .sequence: "\(shard.pipeline.lastSequence)",
        .sessions: "\(counts.sessions)", .commands: "\(queued.count)",
      ]))
    dependencies.report(.serving(shard.term))
  }

  /// How long nobody served the shard. Where the former owner said when it stopped, by the difference
  /// of two machines' clocks; a negative one counts as none.
  private func countPause(_ shard: HeldShard, now: Timestamp) {
    guard let pause = shard.pausedSince else { return }
    shard.pausedSince = nil
    let metric =
      pause.isPlanned ? dependencies.metrics.handoverPause : dependencies.metrics.takeoverPause
    metric.record(microseconds: max(0, (now - pause.since).microseconds))
  }

  /// Leaves the bus, takes what had arrived before, and then parts.
  func release(
    _ term: ShardTerm, _ deadline: Timestamp, _ done: @escaping @Sendable (Bool) -> Void
  ) {
    guard let shard = holding(term), shard.release == nil else { return done(false) }
    leaveBus(shard)
    // A shard that has not begun has said nothing, and does not know all sessions: who waits in its
    // queue, and who comes behind, asks the next owner.
    _ = shard.queue.takeAll()
    let hasBegun = shard.keepsTime
    shard.phase = hasBegun ? .draining : .parting
    shard.release = HeldShard.Release(deadline: deadline, done: done)
    if hasBegun { inbox.offer(.drained(term)) }
    touch(term.shard)
  }

  /// The last record is in the journal.
  func part(_ shard: HeldShard) {
    let done = shard.release?.done
    shard.release = nil
    dependencies.metrics.releases.increment()
    dropSilently(shard)
    done?(true)
  }

  /// Gives a shard up at once: what was held back is dropped, nobody is told anything.
  func stepDown(_ shard: HeldShard, _ reason: String) {
    let term = shard.term
    dependencies.metrics.stepDowns.increment()
    dependencies.logger.warning(
      "Stepped down from a shard.",
      metadata: .keys([.shard: "\(shard.number)", .epoch: "\(term.epoch)", .reason: "\(reason)"]))
    dropSilently(shard)
    dependencies.report(.steppedDown(term, reason: reason))
  }

  func dropSilently(_ shard: HeldShard) {
    leaveBus(shard)
    dependencies.metrics.shards.add(-1)
    dependencies.metrics.load(ShardLoad(), was: shard.countedLoad)
    dependencies.metrics.calls.live(.none, was: shard.countedCalls)
    let release = shard.release
    let waiters = shard.checkpointWaiters
    held[shard.number] = nil
    touch(shard.number)
    release?.done(false)
    for done in waiters { done(false) }
  }

  func abandon(_ shard: Int) {
    guard let waiting = endRecovery(shard) else { return }
    for subscription in waiting.subscriptions { subscription.cancel() }
  }

  private func endRecovery(_ shard: Int) -> RecoveringShard? {
    let waiting = recovering.removeValue(forKey: shard)
    if let waiting { dependencies.metrics.recoveryQueue.add(-Int64(waiting.batches.count)) }
    return waiting
  }

  private func leaveBus(_ shard: HeldShard) {
    for subscription in shard.subscriptions { subscription.cancel() }
    shard.subscriptions.removeAll()
  }
}
