internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Commands: from a batch's bytes to a decision.
extension ShardWorker {
  func receiveCommands(_ shard: Int, _ parcel: CommandParcel, now: Timestamp) {
    metrics.commandBatches.increment()
    if recovering[shard] != nil { return keep(parcel, for: shard, now: now) }
    guard let shard = held[shard] else { return }
    decodeAndHandle(parcel, shard, now: now)
    touch(shard.number)
  }

  private func keep(_ parcel: CommandParcel, for shard: Int, now: Timestamp) {
    guard recovering[shard]!.parcels.count < configuration.queuedCommandsMax,
      recovering[shard]!.bytes + parcel.bytes <= configuration.queuedBytesMax
    else { return dropped(1, shard, now: now) }
    recovering[shard]!.parcels.append(parcel)
    recovering[shard]!.bytes += parcel.bytes
    metrics.recoveryQueue.add(1)
  }

  private func dropped(_ count: Int, _ shard: Int, now: Timestamp) {
    metrics.commandsDropped.increment(by: UInt64(count))
    droppedCommands.warn(
      logger, now: now,
      "Commands for a shard in recovery were dropped: its queue is full; edges send them again.",
      [.shard: "\(shard)"])
  }

  func decodeAndHandle(_ parcel: CommandParcel, _ shard: HeldShard, now: Timestamp) {
    var batch: CommandBatch
    do {
      batch = try parcel.batch()
    } catch {
      metrics.commandBatchesUnreadable.increment()
      return unreadableCommands.warn(
        logger, now: now, "Command batches that cannot be read were dropped.",
        [.shard: "\(shard.number)", .error: "\(error)"])
    }
    let source = parcel.source
    if case .encoded = parcel.content, source == .edges, exchange?.isLocal(batch.edge) ?? false {
      return
    }
    if source == .edges, !authenticator.isEdge(batch.edge, batch.secret) {
      return rejected(batch.commands.count, shard.number, Self.noEdge, now: now)
    }
    if source == .edges, batch.edge != 0, !knownEdges.contains(batch.edge) {
      report(.edgeSeen(batch.edge))
      edgeReturned(batch.edge, now: now)
    }
    metrics.commands.increment(by: UInt64(batch.commands.count))
    // Gateways and coordinators of the previous version use the subject of edges.
    let besideOlder = source == .edges && configuration.sessionTickets == .offered
    let size = parcel.bytes / max(1, batch.commands.count)
    for index in batch.commands.indices where admits(batch.commands[index], shard, now: now) {
      guard source.may(say: batch.commands[index].body) || besideOlder else {
        rejected(1, shard.number, "no such node may say it", now: now)
        continue
      }
      if source == .edges {
        authenticateAndHandle(&batch.commands[index], size, shard, now: now)
      } else {
        handleCommand(batch.commands[index], size, shard, now: now)
      }
    }
    for command in batch.unreadable { refuse(command, shard, now: now) }
  }

  /// Whether a command may be decided now. While the shard's pipeline is full, the shard takes only commands that
  /// are never retransmitted: acknowledgements and closed sessions, which are no more than the sessions.
  func admits(_ command: Command, _ shard: HeldShard, now: Timestamp) -> Bool {
    guard shard.pipeline.isFull, command.request != 0 else { return true }
    metrics.commandsRefused.increment()
    refusedCommands.warn(
      logger, now: now,
      "Commands were dropped: too much waits for their shard's journal; edges send them again.",
      [.shard: "\(shard.number)"])
    return false
  }

  /// Takes an edge's command if the edge may speak for its user.
  private func authenticateAndHandle(
    _ command: inout Command, _ size: Int, _ shard: HeldShard, now: Timestamp
  ) {
    switch authenticator.authenticate(&command, now: now) {
    case .accepted: handleCommand(command, size, shard, now: now)
    case .refused(let error):
      if error.code != .tryAgain { rejected(1, shard.number, error.code.name, now: now) }
      guard command.request != 0 else { return }
      send(.reply(command.session, request: command.request, .error(error)), shard, now: now)
    case .unknownSession:
      rejected(1, shard.number, "the session has no good ticket", now: now)
      let notice = Notice(
        kind: .goAway, message: "The session is not known any more. Attach again.",
        retryAfterMilliseconds: 1000)
      send(.close(command.session, notice), shard, now: now)
    }
  }

  /// Sends something that the state machine did not decide, behind a fence like every effect.
  private func send(_ effect: Effect, _ shard: HeldShard, now: Timestamp) {
    if case .parting = shard.phase { return }
    if shard.pipeline.isFull { return metrics.commandsRefused.increment() }
    decide(shard, now: now) { _, outcome in
      outcome.effects.append(effect)
      outcome.raise(to: .urgent)
    }
  }

  static let noEdge = "the sender is not the edge that it says"

  /// Counts and logs commands whose sender must not send them.
  func rejected(_ count: Int, _ shard: Int, _ reason: String, now: Timestamp) {
    metrics.commandsForged.increment(by: UInt64(count))
    forgedCommands.warn(
      logger, now: now, "Commands were turned away: somebody speaks for whom he is not.",
      [.shard: "\(shard)", .reason: "\(reason)"])
  }

  /// Refuses a command of a later version, or a damaged one.
  private func refuse(_ command: CommandBatch.Unreadable, _ shard: HeldShard, now: Timestamp) {
    metrics.commandsUnreadable.increment()
    unreadableCommands.warn(
      logger, now: now, "Commands that cannot be read were refused.",
      [.shard: "\(shard.number)", .error: "\(command.reason)"])
    guard command.request != 0 else { return }
    let reply = Reply.error(CallError(.unknownCommand))
    send(.reply(command.session, request: command.request, reply), shard, now: now)
  }

  private func handleCommand(_ command: Command, _ size: Int, _ shard: HeldShard, now: Timestamp) {
    if case .pushReport(let report) = command.body { metrics.count(report.outcome) }
    switch shard.phase {
    case .serving, .draining: decide(shard, now: now) { $0.handle(command, now: now, into: &$1) }
    // Commands about sessions do not wait: announcements, attaches and closings must keep the edge's order.
    case .announcing where command.body.isAboutSession:
      decide(shard, now: now) { $0.handle(command, now: now, into: &$1) }
    case .announcing:
      guard shard.queue.count < configuration.queuedCommandsMax,
        shard.queue.bytes + size <= configuration.queuedBytesMax
      else { return dropped(1, shard.number, now: now) }
      shard.queue.append(command, bytes: size)
    case .parting: break  // The edge retransmits it to the next owner.
    }
  }

  /// Lets the state machine decide, and holds back what it decided.
  func decide(
    _ shard: HeldShard, now: Timestamp, _ body: (inout ShardMachine, inout Outcome) -> Void
  ) {
    body(&shard.machine, &outcome)
    for span in outcome.ringLatencies {
      metrics.ringLatency.record(microseconds: span.microseconds)
    }
    outcome.ringLatencies.removeAll(keepingCapacity: true)
    if !outcome.faults.isEmpty { reportFaults(of: shard.number, now: now) }
    shard.pipeline.add(&outcome, now: now, lazyAppend: configuration.limits.lazyAppend)
  }

  /// Counts and logs faults, which only bugs of Callmesh cause.
  private func reportFaults(of shard: Int, now: Timestamp) {
    metrics.internalFaults.increment(by: UInt64(outcome.faults.count))
    for fault in outcome.faults {
      guard let times = internalFaults.admit(now: now) else { continue }
      var metadata = Logger.Metadata.keys([
        .shard: "\(shard)", .reason: "\(fault.kind.rawValue)", .count: "\(times)",
      ])
      if let call = fault.call { metadata[LogKey.call.rawValue] = "\(call)" }
      logger.error(
        "The shard's state machine got what cannot come: a bug of Callmesh.", metadata: metadata)
    }
    outcome.faults.removeAll(keepingCapacity: true)
  }
}
