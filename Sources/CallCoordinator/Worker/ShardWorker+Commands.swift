internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Commands: from a batch's bytes to a decision.
extension ShardWorker {
  func takeCommands(
    _ shard: Int, _ bytes: [UInt8], from source: CommandSource, now: Timestamp
  ) {
    dependencies.metrics.commandBatches.increment()
    if recovering[shard] != nil { return keep(bytes, from: source, for: shard, now: now) }
    guard let shard = held[shard] else { return }
    decodeAndTake(bytes, shard, from: source, now: now)
    touch(shard.number)
  }

  private func keep(
    _ bytes: [UInt8], from source: CommandSource, for shard: Int, now: Timestamp
  ) {
    let configuration = dependencies.configuration
    guard recovering[shard]!.batches.count < configuration.queuedCommandsMax,
      recovering[shard]!.bytes + bytes.count <= configuration.queuedBytesMax
    else { return dropped(1, shard, now: now) }
    recovering[shard]!.batches.append((bytes, source))
    recovering[shard]!.bytes += bytes.count
    dependencies.metrics.recoveryQueue.add(1)
  }

  private func dropped(_ count: Int, _ shard: Int, now: Timestamp) {
    dependencies.metrics.commandsDropped.increment(by: UInt64(count))
    guard let times = droppedCommands.admit(now: now) else { return }
    dependencies.logger.warning(
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
      dependencies.metrics.commandBatchesUnreadable.increment()
      if let times = unreadableCommands.admit(now: now) {
        dependencies.logger.warning(
          "Command batches that cannot be read were dropped.",
          metadata: .keys([.shard: "\(shard.number)", .error: "\(error)", .count: "\(times)"]))
      }
      return
    }
    if source == .edges, !authenticator.isEdge(batch.edge, batch.secret) {
      return rejected(batch.commands.count, shard.number, Self.noEdge, now: now)
    }
    if source == .edges, batch.edge != 0, !knownEdges.contains(batch.edge) {
      dependencies.report(.edgeSeen(batch.edge))
      edgeReturned(batch.edge, now: now)
    }
    dependencies.metrics.commands.increment(by: UInt64(batch.commands.count))
    // Gateways and coordinators of the version before speak where edges do.
    let besideOlder = source == .edges && dependencies.configuration.sessionTickets == .offered
    let size = bytes.count / max(1, batch.commands.count)
    for var command in batch.commands where admits(command, shard, now: now) {
      guard source.may(say: command.body) || besideOlder else {
        rejected(1, shard.number, "no such node may say it", now: now)
        continue
      }
      if source == .edges {
        authenticateAndTake(&command, size, shard, now: now)
      } else {
        takeCommand(command, size, shard, now: now)
      }
    }
    for command in batch.unreadable { refuse(command, shard, now: now) }
  }

  /// Whether a command may be decided now. While the shard's pipeline is full, only those are that nobody
  /// would retransmit: acknowledgements and closed sessions, of which there are no more than sessions.
  func admits(_ command: Command, _ shard: HeldShard, now: Timestamp) -> Bool {
    guard shard.pipeline.isFull, command.request != 0 else { return true }
    dependencies.metrics.commandsRefused.increment()
    if let times = refusedCommands.admit(now: now) {
      dependencies.logger.warning(
        "Commands were dropped: too much waits for their shard's journal; edges send them again.",
        metadata: .keys([.shard: "\(shard.number)", .count: "\(times)"]))
    }
    return false
  }

  /// Takes an edge's command if the edge may speak for who says it.
  private func authenticateAndTake(
    _ command: inout Command, _ size: Int, _ shard: HeldShard, now: Timestamp
  ) {
    switch authenticator.authenticate(&command, now: now) {
    case .accepted: takeCommand(command, size, shard, now: now)
    case .refused(let error):
      if error.code != .tryAgain { rejected(1, shard.number, error.code.name, now: now) }
      guard command.request != 0 else { return }
      tell(.reply(command.session, request: command.request, .error(error)), shard, now: now)
    case .unknownSession:
      rejected(1, shard.number, "the session has no good ticket", now: now)
      let notice = Notice(
        kind: .goAway, message: "The session is not known any more. Attach again.",
        retryAfterMilliseconds: 1000)
      tell(.close(command.session, notice), shard, now: now)
    }
  }

  /// Says something that no rule decided, behind a fence as all that is said.
  private func tell(_ effect: Effect, _ shard: HeldShard, now: Timestamp) {
    if case .parting = shard.phase { return }
    if shard.pipeline.isFull { return dependencies.metrics.commandsRefused.increment() }
    decide(shard, now: now) { _, outcome in
      outcome.effects.append(effect)
      outcome.raise(to: .urgent)
    }
  }

  static let noEdge = "the sender is not the edge that it says"

  /// Said by who must not say it.
  func rejected(_ count: Int, _ shard: Int, _ reason: String, now: Timestamp) {
    dependencies.metrics.commandsForged.increment(by: UInt64(count))
    guard let times = forgedCommands.admit(now: now) else { return }
    dependencies.logger.warning(
      "Commands were turned away: somebody speaks for whom he is not.",
      metadata: .keys([.shard: "\(shard)", .reason: "\(reason)", .count: "\(times)"]))
  }

  /// A command of a later version, or one that is damaged: whoever waits for its reply is told.
  private func refuse(_ command: CommandBatch.Unreadable, _ shard: HeldShard, now: Timestamp) {
    dependencies.metrics.commandsUnreadable.increment()
    if let times = unreadableCommands.admit(now: now) {
      dependencies.logger.warning(
        "Commands that cannot be read were refused.",
        metadata: .keys([
          .shard: "\(shard.number)", .error: "\(command.reason)", .count: "\(times)",
        ]))
    }
    guard command.request != 0 else { return }
    let reply = Reply.error(CallError(.unknownCommand))
    tell(.reply(command.session, request: command.request, reply), shard, now: now)
  }

  private func takeCommand(
    _ command: Command, _ size: Int, _ shard: HeldShard, now: Timestamp
  ) {
    if case .pushReport(let report) = command.body { dependencies.metrics.count(report.outcome) }
    switch shard.phase {
    case .serving, .draining: decide(shard, now: now) { $0.handle(command, now: now, into: &$1) }
    // Sessions are taken as they come, so that an announced one and one that attaches or closes
    // meanwhile are seen in the order in which the edge said it.
    case .announcing where command.body.isAboutSession:
      decide(shard, now: now) { $0.handle(command, now: now, into: &$1) }
    case .announcing:
      guard shard.queue.count < dependencies.configuration.queuedCommandsMax,
        shard.queue.bytes + size <= dependencies.configuration.queuedBytesMax
      else { return dropped(1, shard.number, now: now) }
      shard.queue.append(command, bytes: size)
    case .parting: break  // The edge sends it again, to the next owner.
    }
  }

  /// Lets the rules decide, and holds back what they decided.
  func decide(
    _ shard: HeldShard, now: Timestamp, _ body: (inout ShardMachine, inout Outcome) -> Void
  ) {
    body(&shard.machine, &outcome)
    for span in outcome.ringLatencies {
      dependencies.metrics.ringLatency.record(microseconds: span.microseconds)
    }
    outcome.ringLatencies.removeAll(keepingCapacity: true)
    if !outcome.faults.isEmpty { reportFaults(of: shard.number, now: now) }
    shard.pipeline.add(
      &outcome, now: now, lazyAppend: dependencies.configuration.limits.lazyAppend)
  }

  /// Counts and logs what only a bug of ours brings about.
  private func reportFaults(of shard: Int, now: Timestamp) {
    dependencies.metrics.internalFaults.increment(by: UInt64(outcome.faults.count))
    for fault in outcome.faults {
      guard let times = internalFaults.admit(now: now) else { continue }
      var metadata = Logger.Metadata.keys([
        .shard: "\(shard)", .reason: "\(fault.kind.rawValue)", .count: "\(times)",
      ])
      if let call = fault.call { metadata[LogKey.call.rawValue] = "\(call)" }
      dependencies.logger.error(
        "The shard's state machine got what cannot come: a bug of Callmesh.", metadata: metadata)
    }
    outcome.faults.removeAll(keepingCapacity: true)
  }
}
