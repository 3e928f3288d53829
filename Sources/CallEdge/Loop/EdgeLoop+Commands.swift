internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NIOCore

/// Commands: from the connections to the shards.
extension EdgeLoop {
  enum Submission {
    case sent
    /// The same command waits for its reply: one reply will answer both.
    case repeated
    case refused(CallError)
  }

  /// Sends a command that will be answered to its shard.
  func submit(_ command: consuming Command, now: Timestamp) -> Submission {
    // A retransmission counts once.
    if AppGate.limits(command.body), !outbox.isWaiting(command),
      let error = shared.apps.refusal(of: command, now: now)
    {
      return .refused(error)
    }
    if case .history = command.body,
      let error = shared.apps.refusalOfHistory(to: command.user.app)
    {
      return .refused(error)
    }
    shared.apps.stamp(&command)
    note(command)
    if let hook = hook(for: command) { return submit(command, asking: hook, now: now) }
    let lazily = isBusy && command.body.mayWait
    let submission = noted(outbox.submit(consume command, lazily: lazily, now: now))
    guard case .sent = submission else { return submission }
    if lazily { scheduleLazyFlush() } else { scheduleFlush() }
    return submission
  }

  /// Counts what came of a command that was given to the outbox.
  func noted(_ submission: CommandOutbox.Submission) -> Submission {
    switch submission {
    case .accepted:
      metrics.commandsPending.add(1)
      commandsThisTick += 1
      return .sent
    case .repeated: return .repeated
    case .conflicting:
      return .refused(CallError(.invalidField, "Another command waits under this id."))
    case .outOfTurn: return .refused(CallError(.tryAgain, retryAfterMilliseconds: 200))
    case .full:
      metrics.commandsRefused.increment()
      return .refused(CallError(.overloaded, retryAfterMilliseconds: 1000))
    }
  }

  /// Sends the command of an HTTP request; its reply goes to the handler.
  /// - Returns: why it was refused; nil where it was sent.
  func submit(_ command: Command, for handler: HTTPHandler) -> CallError? {
    switch command.body {
    case .app(.calls): return askForCalls(command, for: handler) { .calls(shard: $0) }
    case .app(.live(var query)):
      let page = Int(query.limit)
      query.limit += 1
      return askForCalls(command, page: page, for: handler) {
        query.shard = $0
        return .live(query)
      }
    default: break
    }
    if case .refused(let error) = submit(command, now: now) { return error }
    endpoints[command.session.number] = .request(handler)
    return nil
  }

  /// Forgets a request whose HTTP connection is closed.
  func forgetRequest(session: UInt64) { endpoints.removeValue(forKey: session) }

  /// Sends a command that has no reply.
  func submit(unanswered command: Command) {
    note(command)
    outbox.submit(unanswered: command)
    scheduleFlush()
  }

  /// Sends acknowledgements, which may wait for others.
  func acknowledge(_ command: consuming Command) {
    note(command)
    outbox.acknowledge(consume command)
    scheduleLazyFlush()
  }

  /// Counts and logs a command that goes to a shard.
  private func note(_ command: Command) {
    metrics.commandsTotal.increment()
    shared.logger.received(command)
  }

  // MARK: Publishing

  /// Publishes at the end of this turn of the event loop, when all sockets that had something were read.
  func scheduleFlush() {
    guard !isFlushScheduled else { return }
    isFlushScheduled = true
    eventLoop.assumeIsolated().execute {
      self.isFlushScheduled = false
      self.flushCommands(all: false)
    }
  }

  private func scheduleLazyFlush() {
    guard !isLazyFlushScheduled, outbox.hasLazy else { return }
    isLazyFlushScheduled = true
    eventLoop.assumeIsolated().scheduleTask(
      in: .microseconds(shared.configuration.acknowledgementDelay.microseconds)
    ) {
      self.isLazyFlushScheduled = false
      self.flushCommands(all: true)
    }
  }

  /// Sends what cannot wait, one batch per shard; with `all`, everything.
  func flushCommands(all: Bool) {
    guard outbox.hasUrgent || (all && outbox.hasLazy) else { return }
    var messages: [OutgoingMessage] = []
    outbox.flush(all: all) { shard, commands in
      let commands = isBusConnected ? commands : commands.filter { $0.request == 0 }
      if !commands.isEmpty, let message = shared.handOver(commands, to: shard) {
        messages.append(message)
      }
    }
    shared.publish(messages)
  }

  /// A bus that is not connected keeps what it is given, and sends it when it is connected again. By then a
  /// command may have been given up, and an attach or a place would be carried out for a device that has
  /// turned elsewhere. So a command that has a reply, and is retransmitted, is not given to it before then.
  func checkBusConnection(now: Timestamp) {
    let wasConnected = isBusConnected
    isBusConnected = shared.isBusConnected()
    guard isBusConnected, !wasConnected else { return }
    reach?.watch.reconnected(now: now)
    outbox.retransmit { endpoints[$0] != nil }
  }

  // MARK: Retransmission

  /// Retransmits commands that wait too long for their replies, and gives up those that waited longer.
  func sweepCommands(now: Timestamp) {
    let before = outbox.pendingCount
    var late: [CommandOutbox.Pending] = []
    let resent = outbox.sweep(
      now: now, isLive: { endpoints[$0] != nil }, giveUp: { late.append($0) })
    metrics.commandsPending.add(Int64(outbox.pendingCount - before))
    if resent > 0 { metrics.commandsRetried.increment(by: UInt64(resent)) }
    noteSignalGaps()
    for command in late {
      metrics.commandsTimedOut.increment()
      answer(command, .error(CallError(.tryAgain)), now: now)
    }
  }

  private func noteSignalGaps() {
    let (count, forgotten) = (outbox.signalGaps, outbox.signalGapsForgotten)
    if count != signalGapsNoted.count {
      metrics.signalGaps.add(Int64(count - signalGapsNoted.count))
    }
    if forgotten > signalGapsNoted.forgotten {
      metrics.signalGapsForgotten.increment(by: forgotten - signalGapsNoted.forgotten)
    }
    signalGapsNoted = (count, forgotten)
  }

  // MARK: A shard's new owner

  /// Announces to a shard's new owner all sessions of the shard's users, and where the callers of its calls
  /// are; then retransmits what waits for a reply. Everything is published when it returns.
  /// - Returns: how many sessions were announced.
  func announce(shard: Int, epoch: UInt64) -> Int {
    flushCommands(all: true)
    var count = 0
    for case .device(let handler) in endpoints.values {
      if let command = handler.announcement(toShard: shard, epoch: epoch) {
        outbox.submit(unanswered: command)
        count += 1
      }
      for command in handler.resumptions(ofShard: shard) { outbox.submit(unanswered: command) }
    }
    outbox.retransmit(toShard: shard) { endpoints[$0] != nil }
    flushCommands(all: true)
    return count
  }
}
