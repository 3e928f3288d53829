internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// What comes in.
extension ShardWorker {
  func take(_ event: WorkerEvent, now: Timestamp) {
    switch event {
    case .commands(let shard, let bytes, let source):
      takeCommands(shard, bytes, from: source, now: now)
    case .appended(let term, let number, let result):
      if let shard = flying(term, number) { appendAnswered(shard, result, now: now) }
    case .settled(let term, let number, let settlement):
      if let shard = flying(term, number) { take(.looked(settlement), shard, now: now) }
    case .registrationWritten(let term, let key, let result):
      registrationWritten(term, key, result, now: now)
    case .registrationRead(let term, let key, let entry):
      if let shard = holding(term) { registrationRead(shard, key, entry, now: now) }
    case .registrationFailed(let term, let token):
      registrationEnded(term, token, ok: false, now: now)
    case .pushAdded(let number, let result): pushAdded(number, result, now: now)
    case .tokenStep(let term, let token, let result):
      tokenStepDone(term, token, result, now: now)
    case .peerAnswer(let bytes): takeAnswers(bytes, now: now)
    case .mayPush(let may):
      allReadPushes = may
      for shard in held { shard?.machine.mayPush = mayPush }
    case .announceDone(let shard, let done):
      guard speakers.isEdge(done.edge, done.secret) else {
        return turnedAway(1, shard, Self.noEdge, now: now)
      }
      if let shard = holding(ShardTerm(shard: shard, epoch: done.epoch)) {
        edgeAnnounced(done, shard, now: now)
      }
    case .heardItself(let since): heardItself(since: since, now: now)
    case .edgeLost(let edge, let until): edgeLost(edge, awaitedUntil: until, now: now)
    case .edgeReturned(let edge): edgeReturned(edge, now: now)
    case .expect(let term): expected[term.shard] = ExpectedShard(term: term)
    case .subscribed(let term, let subscriptions):
      guard expected[term.shard]?.term == term else {
        for subscription in subscriptions { subscription.cancel() }
        return
      }
      expected[term.shard]?.subscriptions += subscriptions
    case .adopt(let shard): adopt(shard, now: now)
    case .abandon(let term): if expected[term.shard]?.term == term { abandon(term.shard) }
    case .checkpointEnded(let term, let sequence, let ok):
      if let shard = holding(term) { checkpointEnded(shard, sequence, ok: ok, now: now) }
    case .checkpoint(let term, let done):
      guard let shard = holding(term) else { return done(false) }
      shard.checkpointWaiters.append(done)
      touch(term.shard)
    case .release(let term, let deadline, let done): release(term, deadline, done)
    case .drained(let term):
      guard let shard = holding(term), case .draining = shard.phase else { return }
      shard.phase = .parting
      touch(term.shard)
    case .deposed(let shard, let epoch):
      if let shard = held[shard], shard.term.epoch < epoch {
        stepDown(shard, "the lease is another's, with epoch \(epoch)")
      }
      if let term = expected[shard]?.term, term.epoch < epoch { abandon(shard) }
    }
  }

  /// The shard, if it is held in that term.
  func holding(_ term: ShardTerm) -> HeldShard? {
    guard let shard = held[term.shard], shard.term == term else { return nil }
    return shard
  }

  private func flying(_ term: ShardTerm, _ number: UInt64) -> HeldShard? {
    guard let shard = holding(term), shard.flight?.number == number else { return nil }
    return shard
  }

  // MARK: Commands

  private func takeCommands(
    _ shard: Int, _ bytes: [UInt8], from source: CommandSource, now: Timestamp
  ) {
    with.metrics.commandBatches.increment()
    if expected[shard] != nil { return keep(bytes, from: source, for: shard, now: now) }
    guard let shard = held[shard] else { return }
    decodeAndTake(bytes, shard, from: source, now: now)
    touch(shard.number)
  }

  private func keep(
    _ bytes: [UInt8], from source: CommandSource, for shard: Int, now: Timestamp
  ) {
    guard expected[shard]!.batches.count < with.configuration.queuedCommandsMax else {
      return dropped(1, shard, now: now)
    }
    expected[shard]!.batches.append((bytes, source))
  }

  private func dropped(_ count: Int, _ shard: Int, now: Timestamp) {
    with.metrics.commandsDropped.increment(by: UInt64(count))
    guard let times = droppedCommands.admit(now: now) else { return }
    with.logger.warning(
      "Commands for a shard in recovery were dropped: its queue is full; edges send them again.",
      metadata: .keys([.shard: "\(shard)", .count: "\(times)"]))
  }

  func decodeAndTake(
    _ bytes: [UInt8], _ shard: HeldShard, from source: CommandSource, now: Timestamp
  ) {
    let batch: CommandBatch
    do {
      batch = try ClusterCodec.commandBatch(bytes)
    } catch {
      with.metrics.commandBatchesUnreadable.increment()
      if let times = unreadableCommands.admit(now: now) {
        with.logger.warning(
          "Command batches that cannot be read were dropped.",
          metadata: .keys([.shard: "\(shard.number)", .error: "\(error)", .count: "\(times)"]))
      }
      return
    }
    if source == .edges, !speakers.isEdge(batch.edge, batch.secret) {
      return turnedAway(batch.commands.count, shard.number, Self.noEdge, now: now)
    }
    if source == .edges, batch.edge != 0, !knownEdges.contains(batch.edge) {
      with.report(.heardFromEdge(batch.edge))
      edgeReturned(batch.edge, now: now)
    }
    with.metrics.commands.increment(by: UInt64(batch.commands.count))
    // Gateways and coordinators of the version before speak where edges do.
    let besideOlder = source == .edges && with.configuration.sessionTickets == .offered
    for var command in batch.commands {
      guard source.may(say: command.body) || besideOlder else {
        turnedAway(1, shard.number, "no such node may say it", now: now)
        continue
      }
      if source == .edges {
        judgeAndTake(&command, shard, now: now)
      } else {
        takeCommand(command, shard, now: now)
      }
    }
    for command in batch.unreadable { refuse(command, shard, now: now) }
  }

  /// Takes an edge's command if the edge may speak for who says it.
  private func judgeAndTake(_ command: inout Command, _ shard: HeldShard, now: Timestamp) {
    switch speakers.judge(&command, now: now) {
    case .good: takeCommand(command, shard, now: now)
    case .refused(let error):
      if error.code != .tryAgain { turnedAway(1, shard.number, error.code.name, now: now) }
      guard command.request != 0 else { return }
      tell(.reply(command.session, request: command.request, .error(error)), shard, now: now)
    case .unknownSession:
      turnedAway(1, shard.number, "the session has no good ticket", now: now)
      let notice = Notice(
        kind: .goAway, message: "The session is not known any more. Attach again.",
        retryAfterMilliseconds: 1000)
      tell(.close(command.session, notice), shard, now: now)
    }
  }

  /// Says something that no rule decided, behind a fence as all that is said.
  private func tell(_ effect: Effect, _ shard: HeldShard, now: Timestamp) {
    if case .parting = shard.phase { return }
    decide(shard, now: now) { _, outcome in
      outcome.effects.append(effect)
      outcome.raise(to: .urgent)
    }
  }

  private static let noEdge = "the sender is not the edge that it says"

  /// Said by who must not say it.
  private func turnedAway(_ count: Int, _ shard: Int, _ reason: String, now: Timestamp) {
    with.metrics.commandsForged.increment(by: UInt64(count))
    guard let times = forgedCommands.admit(now: now) else { return }
    with.logger.warning(
      "Commands were turned away: somebody speaks for whom he is not.",
      metadata: .keys([.shard: "\(shard)", .reason: "\(reason)", .count: "\(times)"]))
  }

  /// A command of a later version, or one that is damaged: whoever waits for its reply is told.
  private func refuse(_ command: CommandBatch.Unreadable, _ shard: HeldShard, now: Timestamp) {
    with.metrics.commandsUnreadable.increment()
    if let times = unreadableCommands.admit(now: now) {
      with.logger.warning(
        "Commands that cannot be read were refused.",
        metadata: .keys([
          .shard: "\(shard.number)", .error: "\(command.reason)", .count: "\(times)",
        ]))
    }
    guard command.request != 0 else { return }
    let reply = Reply.error(CallError(.unknownCommand))
    tell(.reply(command.session, request: command.request, reply), shard, now: now)
  }

  private func takeCommand(_ command: Command, _ shard: HeldShard, now: Timestamp) {
    if case .pushReport(let report) = command.body { with.metrics.count(report.outcome) }
    switch shard.phase {
    case .serving, .draining: decide(shard, now: now) { $0.handle(command, now: now, into: &$1) }
    // Sessions are taken as they come, so that an announced one and one that attaches or closes
    // meanwhile are seen in the order in which the edge said it.
    case .announcing where command.body.isAboutSession:
      decide(shard, now: now) { $0.handle(command, now: now, into: &$1) }
    case .announcing:
      guard shard.queue.count < with.configuration.queuedCommandsMax else {
        return dropped(1, shard.number, now: now)
      }
      shard.queue.append(command)
    case .parting: break  // The edge sends it again, to the next owner.
    }
  }

  /// Lets the rules decide, and holds back what they decided.
  func decide(
    _ shard: HeldShard, now: Timestamp, _ body: (inout ShardMachine, inout Outcome) -> Void
  ) {
    body(&shard.machine, &outcome)
    for span in outcome.ringLatencies {
      with.metrics.ringLatency.record(microseconds: span.microseconds)
    }
    outcome.ringLatencies.removeAll(keepingCapacity: true)
    if !outcome.faults.isEmpty { reportFaults(of: shard.number, now: now) }
    shard.pipeline.add(
      &outcome, now: now, lazyAppend: with.configuration.limits.lazyAppend)
  }

  /// Counts and logs what only a bug of ours brings about.
  private func reportFaults(of shard: Int, now: Timestamp) {
    with.metrics.internalFaults.increment(by: UInt64(outcome.faults.count))
    for fault in outcome.faults {
      guard let times = internalFaults.admit(now: now) else { continue }
      var metadata = Logger.Metadata.keys([
        .shard: "\(shard)", .reason: "\(fault.kind.rawValue)", .count: "\(times)",
      ])
      if let call = fault.call { metadata[LogKey.call.rawValue] = "\(call)" }
      with.logger.error(
        "The shard's state machine got what cannot come: a bug of Callmesh.", metadata: metadata)
    }
    outcome.faults.removeAll(keepingCapacity: true)
  }

  // MARK: The bus

  /// A node that was cut off, or stopped, was told by nobody who came back meanwhile: that time does not count.
  private func heardItself(since: Timestamp, now: Timestamp) {
    let hadGap = hearing.map { $0.since < since } ?? false
    hearing = (at: now, since: since)
    guard hadGap else { return }
    for shard in held { shard?.machine.wasHeldBack(now: now) }
  }

  // MARK: Edges

  private func edgeLost(_ edge: UInt64, awaitedUntil until: Timestamp, now: Timestamp) {
    knownEdges.remove(edge)
    for shard in Array(expected.keys) { expected[shard]?.lostEdges[edge] = until }
    for case let shard? in held { edgeLost(edge, awaitedUntil: until, shard, now: now) }
  }

  func edgeLost(
    _ edge: UInt64, awaitedUntil until: Timestamp, _ shard: HeldShard, now: Timestamp
  ) {
    stopAwaiting(edge, shard)
    if case .announcing = shard.phase { shard.afterLoss = true }
    if case .parting = shard.phase { return }
    shard.sessionRequests.noteLoss(of: edge)
    decide(shard, now: now) { machine, outcome in
      machine.edgeMissing(edge, until: until, now: now)
      machine.edgeLost(edge, now: now, into: &outcome)
    }
    touch(shard.number)
  }

  /// An edge lives that this worker did not know, or that was counted lost: its first command may tell,
  /// or its heartbeat. Its sessions are not known before it has announced them.
  private func edgeReturned(_ edge: UInt64, now: Timestamp) {
    guard knownEdges.insert(edge).inserted else { return }
    for shard in Array(expected.keys) { expected[shard]?.lostEdges[edge] = nil }
    let until = now + with.configuration.silentEdgeAwaited
    for case let shard? in held {
      shard.machine.edgeMissing(edge, until: until, now: now)
      shard.sessionRequests.noteLoss(of: edge)
    }
    announceAnew()
  }

  /// Where the bus lost some of what the edge announced, it is asked once more, and then at intervals. What
  /// answers a request from before the edge was lost is old: it may have been on its way all the time.
  private func edgeAnnounced(_ done: AnnounceDone, _ shard: HeldShard, now: Timestamp) {
    let edge = done.edge
    if case .parting = shard.phase { return }
    guard shard.sessionRequests.isFresh(done) else { return }
    if let sessions = done.sessions, shard.machine.sessions(on: edge) < sessions {
      shard.machine.edgeMissing(
        edge, until: now + with.configuration.silentEdgeAwaited, now: now)
      if shard.sessionRequests.isIncomplete(edge) { askForSessions(shard) }
      return
    }
    shard.sessionRequests.isComplete(edge)
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
    let waits = with.configuration.askForSessionsAgain
    guard !waits.isEmpty else { return }
    shard.askAgainAt = now + waits[min(shard.askedAgain, waits.count - 1)]
    shard.askedAgain += 1
  }

  func askForSessions(_ shard: HeldShard) {
    let request = AnnounceRequest(
      shard: UInt32(shard.number), epoch: shard.term.epoch, number: shard.sessionRequests.next())
    outbox.add(
      OutgoingMessage(
        subject: with.subjects.announceRequests, bytes: ClusterCodec.encode(request)))
  }
}
