internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Adopting, serving and giving up a shard.
extension ShardWorker {
  /// Subscribes to everything that is sent to the shard. It waits until the shard is recovered.
  func beginRecovery(_ term: ShardTerm) {
    do {
      recovering[term.shard] = RecoveringShard(term: term, subscriptions: try subscribe(term))
    } catch {
      // `adopt` then finds no recovery under way, and gives the shard up.
      logger.warning(
        "A shard's commands cannot be subscribed to.",
        metadata: .keys([.shard: "\(term.shard)", .error: "\(error)"]))
    }
  }

  private func subscribe(_ term: ShardTerm) throws -> [any BusSubscription] {
    let (inbox, shard) = (inbox, term.shard)
    var made: [any BusSubscription] = []
    if let exchange {
      made.append(
        exchange.serve(
          shard: shard, epoch: term.epoch, edgeChanged: { inbox.offer(.ownEdgeChanged(term)) },
          { batch in
            inbox.offerCommands(shard: shard, CommandParcel(local: batch))
            inbox.wake()
          }))
    }
    do {
      for source in CommandSource.allCases {
        made.append(
          try bus.subscribe(source.subject(of: shard, subjects)) { message in
            inbox.offerCommands(shard: shard, CommandParcel(encoded: message.bytes, from: source))
          })
      }
      made.append(
        try bus.subscribe(subjects.announceDone(shard: shard)) { message in
          // An unreadable message is ignored: the wait for announcements has a deadline.
          guard let done = try? ClusterCodec.announceDone(message.bytes) else { return }
          inbox.offer(.announceDone(shard: shard, done))
        })
    } catch {
      for subscription in made { subscription.cancel() }
      throw error
    }
    return made
  }

  /// Takes over a recovered shard, and requests its users' sessions from the edges.
  func adopt(_ recovered: RecoveredShard, now: Timestamp) {
    guard recovering[recovered.term.shard]?.term == recovered.term,
      let waiting = endRecovery(recovered.term.shard)
    else {
      // Otherwise the manager would count the claim as a success for ever.
      return report(.steppedDown(recovered.term))
    }
    knownEdges.formUnion(recovered.edges.living)
    let shard = HeldShard(recovered, subscriptions: waiting.subscriptions, configuration, now: now)
    held[shard.number] = shard
    restrict(shard)
    if recordStream != nil { shard.machine.storedParts.insert(.record) }
    if eventStream != nil { shard.machine.storedParts.insert(.events) }
    if historyStream != nil { shard.machine.storedParts.insert(.history) }
    metrics.shards.add(1)
    for parcel in waiting.parcels { decodeAndHandle(parcel, shard, now: now) }
    for (edge, until) in waiting.lostEdges.sorted(by: { $0.key < $1.key }) {
      edgeLost(edge, awaitedUntil: until, shard, now: now)
    }
    askForSessions(shard)
    touch(shard.number)
  }

  /// Calls here that went on to users of another shard are announced to its new owner, once.
  func recovered(_ term: ShardTerm, now: Timestamp) {
    guard recoveredEpochs[term.shard, default: 0] < term.epoch else { return }
    recoveredEpochs[term.shard] = term.epoch
    for case let shard? in held {
      decide(shard, now: now) { machine, outcome in
        machine.recovered(
          shard: term.shard, of: configuration.shardCount, now: now, into: &outcome)
      }
      touch(shard.number)
    }
  }

  /// Every edge has announced its sessions, or the time for it is over: the shard serves.
  /// - Parameter unannounced: edges that did not announce theirs in time; 0 stands for unknown edges.
  func begin(_ shard: HeldShard, unannounced: Set<UInt64>, now: Timestamp) {
    shard.phase = .serving
    let afterLoss = shard.afterLoss || !unannounced.isEmpty
    for edge in unannounced where edge != 0 {
      let until = now + configuration.silentEdgeAwaited
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
    logger.info(
      "Shard serves.",
      metadata: shard.keys([
        .sequence: "\(shard.pipeline.lastSequence)", .sessions: "\(counts.sessions)",
        .commands: "\(queued.count)",
      ]))
  }

  /// Measures how long the shard was not served. After a hand-over this is the difference of two machines' clocks, so a
  /// negative value counts as 0.
  private func countPause(_ shard: HeldShard, now: Timestamp) {
    guard let pause = shard.paused.take() else { return }
    let metric = pause.isPlanned ? metrics.handoverPause : metrics.takeoverPause
    metric.record(microseconds: max(0, (now - pause.since).microseconds))
  }

  /// Unsubscribes, takes what had arrived before, and then parts.
  func release(
    _ term: ShardTerm, _ deadline: Timestamp, _ done: @escaping @Sendable (Bool) -> Void
  ) {
    guard let shard = holding(term), shard.release == nil else { return done(false) }
    leaveBus(shard)
    // A shard that does not serve yet has sent nothing and does not know all sessions: edges retransmit the commands in
    // its queue to the next owner.
    _ = shard.queue.takeAll()
    let hasBegun = shard.keepsTime
    shard.phase = hasBegun ? .draining : .parting
    shard.release = (deadline, done)
    if hasBegun { inbox.offer(.drained(term)) }
    touch(term.shard)
  }

  /// The last record is in the journal.
  func part(_ shard: HeldShard) {
    let done = shard.release.take()?.done
    metrics.releases.increment()
    sendUncounted(unread.leave(shard.term))
    dropSilently(shard)
    done?(true)
  }

  /// Gives a shard up at once: drops what was held back, and sends nothing.
  func stepDown(_ shard: HeldShard, _ reason: String) {
    metrics.stepDowns.increment()
    logger.warning("Stepped down from a shard.", metadata: shard.keys([.reason: "\(reason)"]))
    dropSilently(shard)
    report(.steppedDown(shard.term))
  }

  func dropSilently(_ shard: HeldShard) {
    leaveBus(shard)
    metrics.shards.add(-1)
    metrics.load(ShardLoad(), was: shard.countedLoad)
    held[shard.number] = nil
    touch(shard.number)
    shard.release?.done(false)
    for done in shard.checkpointWaiters { done(false) }
  }

  func abandon(_ shard: Int) {
    guard let waiting = endRecovery(shard) else { return }
    for subscription in waiting.subscriptions { subscription.cancel() }
  }

  private func endRecovery(_ shard: Int) -> RecoveringShard? {
    let waiting = recovering.removeValue(forKey: shard)
    if let waiting { metrics.recoveryQueue.add(-Int64(waiting.parcels.count)) }
    return waiting
  }

  private func leaveBus(_ shard: HeldShard) {
    for subscription in shard.subscriptions { subscription.cancel() }
    shard.subscriptions.removeAll()
  }
}
