internal import CallBus
internal import CallCore
package import CallWire

/// Edges that are lost, that return, and that announce their sessions.
extension ShardWorker {
  /// A node that was cut off or stopped did not learn who came back meanwhile: that time does not count.
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

  func edgeLost(_ edge: UInt64, awaitedUntil until: Timestamp, _ shard: HeldShard, now: Timestamp) {
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

  /// An edge is alive that this worker did not know, or that counted as lost: its first command or its heartbeat shows
  /// it. Its sessions are unknown until it has announced them.
  func edgeReturned(_ edge: UInt64, now: Timestamp) {
    guard knownEdges.insert(edge).inserted else { return }
    for shard in Array(recovering.keys) { recovering[shard]?.lostEdges[edge] = nil }
    let until = now + configuration.silentEdgeAwaited
    for case let shard? in held {
      shard.machine.edgeMissing(edge, until: until, now: now)
      shard.announcements.noteLoss(of: edge)
    }
    for case let shard? in held where shard.keepsTime {
      askForSessions(shard)
      // Its connection may be so new that it does not get this request.
      shard.askedAgain = 0
      scheduleAsking(shard, now: now)
      touch(shard.number)
    }
  }

  /// If the bus lost some of an edge's announcements, the edge is asked again at once, and then at intervals. An answer
  /// to a request from before the edge was lost is ignored: it may be old.
  func edgeAnnounced(_ done: AnnounceDone, _ shard: HeldShard, now: Timestamp) {
    let edge = done.edge
    if case .parting = shard.phase { return }
    guard shard.announcements.isFresh(done) else { return }
    if let sessions = done.sessions, shard.machine.sessions(on: edge) < sessions {
      shard.machine.edgeMissing(edge, until: now + configuration.silentEdgeAwaited, now: now)
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

  /// Schedules the next request for sessions: the bus may have lost some announcements.
  func scheduleAsking(_ shard: HeldShard, now: Timestamp) {
    let waits = configuration.askForSessionsAgain
    guard !waits.isEmpty else { return }
    shard.askAgainAt = now + waits[min(shard.askedAgain, waits.count - 1)]
    shard.askedAgain += 1
  }

  func askForSessions(_ shard: HeldShard) {
    let request = AnnounceRequest(
      shard: UInt32(shard.number), epoch: shard.term.epoch, number: shard.announcements.next(),
      nearer: exchange?.edgeAddress ?? "")
    outbox.add(
      OutgoingMessage(subject: subjects.announceRequests, bytes: ClusterCodec.encode(request)))
  }
}

/// Counts the requests for sessions of one term, and decides which answers still count: an edge that was frozen may
/// answer an old request.
package struct AnnouncementTracker: Sendable {
  package init() {}

  private var asked: UInt64 = 0
  /// Edges that were lost and have not announced their sessions since, with the last request before the loss.
  private var askedBeforeLoss: [UInt64: UInt64] = [:]
  /// Living edges whose last announcement was not complete.
  private var askedForRest: Set<UInt64> = []
  /// Policy: drop the oldest, since some edges never return.
  private static let lostEdgesMax = 64

  /// The number of the next request.
  package mutating func next() -> UInt64 {
    asked += 1
    return asked
  }

  /// An edge was lost, or returned.
  package mutating func noteLoss(of edge: UInt64) {
    askedForRest.remove(edge)
    askedBeforeLoss[edge] = asked
    guard askedBeforeLoss.count > Self.lostEdgesMax,
      let oldest = askedBeforeLoss.min(by: { ($0.value, $0.key) < ($1.value, $1.key) })
    else { return }
    askedBeforeLoss[oldest.key] = nil
  }

  /// Whether an answer belongs to a request since its edge was lost.
  package func isFresh(_ done: AnnounceDone) -> Bool {
    done.number == 0 || askedBeforeLoss[done.edge].map { $0 < done.number } ?? true
  }

  /// Some of an edge's announcements are missing.
  /// - Returns: whether to ask it at once, which is so the first time; later it is asked at intervals.
  package mutating func isIncomplete(_ edge: UInt64) -> Bool {
    askedForRest.insert(edge).inserted
  }

  package mutating func isComplete(_ edge: UInt64) {
    askedForRest.remove(edge)
    askedBeforeLoss[edge] = nil
  }
}
