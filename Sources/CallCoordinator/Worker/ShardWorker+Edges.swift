internal import CallBus
internal import CallCore
internal import CallWire

/// Edges that are lost, return, and announce their sessions.
extension ShardWorker {
  /// A node that was cut off, or stopped, was told by nobody who came back meanwhile: that time does not count.
  func receivedOwnHeartbeat(since: Timestamp, now: Timestamp) {
    let hadGap = ownHeartbeat.map { $0.since < since } ?? false
    ownHeartbeat = (at: now, since: since)
    guard hadGap else { return }
    for shard in held { shard?.machine.wasHeldBack(now: now) }
  }

  func edgeLost(_ edge: UInt64, awaitedUntil until: Timestamp, now: Timestamp) {
    knownEdges.remove(edge)
    for shard in Array(recovering.keys) { recovering[shard]?.lostEdges[edge] = until }
    for case let shard? in held { edgeLost(edge, awaitedUntil: until, shard, now: now) }
  }

  func edgeLost(
    _ edge: UInt64, awaitedUntil until: Timestamp, _ shard: HeldShard, now: Timestamp
  ) {
    stopAwaiting(edge, shard)
    if case .announcing = shard.phase { shard.afterLoss = true }
    if case .parting = shard.phase { return }
    shard.announcements.noteLoss(of: edge)
    decide(shard, now: now) { machine, outcome in
      machine.edgeMissing(edge, until: until, now: now)
      machine.edgeLost(edge, now: now, into: &outcome)
    }
    touch(shard.number)
  }

  /// An edge lives that this worker did not know, or that was counted lost: its first command may tell,
  /// or its heartbeat. Its sessions are not known before it has announced them.
  func edgeReturned(_ edge: UInt64, now: Timestamp) {
    guard knownEdges.insert(edge).inserted else { return }
    for shard in Array(recovering.keys) { recovering[shard]?.lostEdges[edge] = nil }
    let until = now + dependencies.configuration.silentEdgeAwaited
    for case let shard? in held {
      shard.machine.edgeMissing(edge, until: until, now: now)
      shard.announcements.noteLoss(of: edge)
    }
    announceAnew()
  }

  /// Where the bus lost some of what the edge announced, it is asked once more, and then at intervals. What
  /// answers a request from before the edge was lost is old: it may have been on its way all the time.
  func edgeAnnounced(_ done: AnnounceDone, _ shard: HeldShard, now: Timestamp) {
    let edge = done.edge
    if case .parting = shard.phase { return }
    guard shard.announcements.isFresh(done) else { return }
    if let sessions = done.sessions, shard.machine.sessions(on: edge) < sessions {
      shard.machine.edgeMissing(
        edge, until: now + dependencies.configuration.silentEdgeAwaited, now: now)
      if shard.announcements.isIncomplete(edge) { askForSessions(shard) }
      return
    }
    shard.announcements.isComplete(edge)
    stopAwaiting(edge, shard)
    shard.machine.edgeAnnounced(edge, now: now)
  }

  private func stopAwaiting(_ edge: UInt64, _ shard: HeldShard) {
    guard case .announcing(let until, var awaiting) = shard.phase else { return }
    awaiting.remove(edge)
    shard.phase = .announcing(until: until, awaiting: awaiting)
    touch(shard.number)
  }

  private func announceAnew() {
    for case let shard? in held where shard.keepsTime { askForSessions(shard) }
  }

  /// The bus may have lost some of what edges announced.
  func scheduleAsking(_ shard: HeldShard, now: Timestamp) {
    let waits = dependencies.configuration.askForSessionsAgain
    guard !waits.isEmpty else { return }
    shard.askAgainAt = now + waits[min(shard.askedAgain, waits.count - 1)]
    shard.askedAgain += 1
  }

  func askForSessions(_ shard: HeldShard) {
    let request = AnnounceRequest(
      shard: UInt32(shard.number), epoch: shard.term.epoch, number: shard.announcements.next())
    outbox.add(
      OutgoingMessage(
        subject: dependencies.subjects.announceRequests, bytes: ClusterCodec.encode(request)))
  }
}
