internal import CallCore
internal import CallTelemetry
internal import CallWire

/// Deliveries and replies: from the shards to the connections.
extension EdgeLoop {
  /// Handles a burst of replies and deliveries; each socket is flushed once.
  func handle(_ items: [EdgeItem]) {
    let now = self.now
    for index in items.indices { handle(items[index].body, for: items[index].session, now: now) }
    flushSockets()
  }

  private func handle(_ body: EdgeItem.Body, for session: UInt64, now: Timestamp) {
    switch body {
    case .reply(let request, let reply):
      handleReply(session: session, request: request, reply, now: now)
    case .delivery(let delivery):
      guard let handler = device(session), handler.deliver(delivery) else {
        return undeliverable(delivery, session: session, now: now)
      }
      metrics.deliveriesTotal.increment()
      shared.logger.written(
        delivery, to: SessionRef(edge: shared.incarnation, number: session),
        handler.session.sender)
    case .ongoing(let ongoing):
      guard let handler = device(session) else {
        return metrics.deliveriesUnknown.increment()
      }
      handler.show(ongoing)
    case .history(let history):
      guard let handler = device(session) else {
        return metrics.deliveriesUnknown.increment()
      }
      handler.show(history)
    case .name(let name):
      guard let handler = device(session) else {
        return metrics.deliveriesUnknown.increment()
      }
      handler.session.note(userName: name)
    // To owners of shards only.
    case .visit: metrics.deliveriesUnknown.increment()
    case .notice(let notice):
      guard let handler = device(session) else {
        return metrics.deliveriesUnknown.increment()
      }
      handler.send(.notice(notice))
    case .close(let notice):
      device(session)?.handle(at: now) { $0.asked(toClose: notice, &$1) }
    }
  }

  /// The session is over, and the shard has not learned of it: the message may have been lost.
  private func undeliverable(_ delivery: Delivery, session: UInt64, now: Timestamp) {
    metrics.deliveriesUnknown.increment()
    let ref = SessionRef(edge: shared.incarnation, number: session)
    for command in closed.reminders(of: delivery, session: ref, now: now) {
      submit(unanswered: command)
    }
  }

  /// Keeps the end of a session, for shards that miss it.
  func remember(_ end: DeviceSession.End, session: UInt64) {
    let (count, forgotten) = (closed.count, closed.forgottenEarly)
    closed.add(end, session: session, now: now)
    metrics.closedSessions.add(Int64(closed.count - count))
    if closed.forgottenEarly > forgotten {
      metrics.closedSessionsForgotten.increment(by: closed.forgottenEarly - forgotten)
    }
  }

  private func handleReply(session: UInt64, request: UInt64, _ reply: Reply, now: Timestamp) {
    if takesReply(session: session, now: now) { return }
    // Called for errors alone: each call copies the outbox.
    if case .error = reply, outbox.hasOvertaken(session: session, request: request, reply) {
      return
    }
    guard let pending = outbox.replied(session: session, request: request) else {
      return metrics.deliveriesUnknown.increment()
    }
    metrics.commandsPending.add(-1)
    metrics.commandLatency.record(microseconds: (now - pending.since).microseconds)
    if let refusal = pending.refusal {
      return answer(pending, refusedWith: refusal, reply, now: now)
    }
    answer(pending, reply, now: now)
  }

  /// Hands a command's reply to the sender of the command. The command is not passed: that would copy it.
  func answer(_ pending: CommandOutbox.Pending, _ reply: Reply, now: Timestamp) {
    let session = pending.command.session.number
    switch endpoints[session] {
    case .device(let handler):
      handler.handle(at: now) {
        $0.replied(request: pending.command.request, to: pending.command.body, reply, &$1)
      }
    case .request(let handler):
      endpoints.removeValue(forKey: session)
      let command = pending.command
      handler.replied(
        session: session, HTTPAnswer(reply, to: command.body, device: command.device))
    case .question(let question):
      answer(question, session: session, reply, now: now)
    case nil: metrics.deliveriesUnknown.increment()
    }
  }
}
