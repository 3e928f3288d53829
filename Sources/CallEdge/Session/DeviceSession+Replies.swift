package import CallCore
internal import CallWire

/// Messages from the cluster.
extension DeviceSession {
  /// A command was answered: by its shard, or by the edge itself where it could not be sent.
  package mutating func replied(
    request: UInt64, to body: Command.Body, _ reply: Reply, _ turn: inout Turn
  ) {
    if case .talking(let report) = body { return talkingReported(report, reply) }
    pendingCount -= min(1, pendingCount)
    if isClosing { return }
    if case .attach = body {
      if case .attached(let identity) = phase {
        return renewalReplied(request, reply, of: identity, &turn)
      }
      guard case .attaching(let claims, request, _, let identity) = phase else { return }
      let answer = attachReplied(reply, claims: claims, identity: identity, now: turn.now)
      turn.reply(request, answer)
      // The reply is a former owner's. The present one believes that the device got its own.
      if case .attached(let info) = answer, info.ongoing?.version ?? .max < shown.version {
        turn.actions.append(.announce)
      }
      return
    }
    noteCall(reply)
    notePlaced(by: reply, to: body)
    if pendingCount == 0 { stopsMeanwhile = [] }
    guard let identity = sentIdentity else { return }
    let answer = ServerReply(reply, to: body, device: identity.device)
    turn.actions.append(
      reply.isNews(to: body) ? .reply(request, answer) : .replyLazily(request, answer))
    noteRinging(by: reply, to: body)
    noteTalkIsOver(by: reply, to: body)
    if let call = body.placing { reportCrossings(of: call, &turn) }
    if mayReportTalking { reportTalking(&turn) }
  }

  /// A forwarded command is a repetition of one that waits for its reply: one reply will answer both.
  package mutating func wasRepeated(_ body: Command.Body) {
    pendingCount -= min(1, pendingCount)
    noteAnswered(body)
  }

  /// A forwarded command was refused by the loop: it was not sent.
  package mutating func wasRefused(
    request: UInt64, _ body: Command.Body, _ error: CallError, _ turn: inout Turn
  ) {
    noteRefused(body)
    replied(request: request, to: body, .error(error), &turn)
  }

  /// A delivery is about to be written.
  /// - Returns: false when the session accepts no more deliveries.
  package mutating func willDeliver(_ delivery: Delivery) -> Bool {
    if isClosing { return false }
    switch delivery.event {
    case .invite(let invite):
      inCallUntil = max(inCallUntil, invite.deadline)
      if mayCross(invite, to: delivery.callee) {
        noteRings(delivery.call, invite, at: delivery.version)
      }
    case .stop:
      inCallUntil = Timestamp(microseconds: 0)
      noteEnd(of: delivery.call, at: delivery.version)
      endRung(delivery.call, at: delivery.version)
    case .answered(let answered):
      noteAnswer(of: delivery.call, by: answered.by, at: delivery.at)
      endRung(delivery.call, at: delivery.version)
    case .moved(let move): noteMove(of: delivery.call, to: move.to)
    case .ringsUntil(let deadline):
      if noteRings(delivery.call, until: deadline) { inCallUntil = max(inCallUntil, deadline) }
      noteExists(of: delivery.call)
    case .ringing: noteRinging(of: delivery.call)
    case .signal, .transfer: noteExists(of: delivery.call)
    }
    return true
  }

  /// The user's calls are about to be written.
  /// - Returns: false where the device has seen later ones, or does not know yet that it is attached.
  package mutating func willShow(_ ongoing: OngoingCalls) -> Bool {
    guard isAttached, shown.version <= ongoing.version else { return false }
    shown = ongoing.mark
    return true
  }

  /// The state of the user's history is about to be written. What is written arrives, or the connection breaks, and the
  /// next session begins anew. So the session acknowledges for its device.
  /// - Returns: false where the device was sent a later state, or does not know yet that it is attached.
  package mutating func willShow(_ history: HistoryState, _ turn: inout Turn) -> Bool {
    guard case .attached(let identity) = phase else { return false }
    let acknowledged = max(historyShown.shown ?? history.cursor, history.cursor)
    turn.actions.append(
      .acknowledge(
        callee: identity.user,
        [Acknowledgement(call: Acknowledgement.historyID, version: acknowledged.sequence)]))
    if let shown = historyShown.shown, history.cursor <= shown { return false }
    historyShown.shown = history.cursor
    return true
  }

  /// The user's shard has this name of the user; empty: none. The shard follows the reply to an attach with it, so it
  /// may come before the device has read that reply, but not before the session has.
  package mutating func note(userName: String) {
    if isAttached { self.userName = userName }
  }

  /// A shard has an owner of this epoch, to which the session is announced. What a former one has sent is out of date.
  package mutating func noteOwner(epoch: UInt64) {
    shown.version = max(shown.version, epoch << 20)
  }

  /// The shard, or this edge, ends the session.
  package mutating func asked(toClose notice: Notice, _ turn: inout Turn) {
    if isClosing { return }
    turn.actions.append(.notice(notice))
    close(CloseReason(notice.kind), &turn)
  }

  private mutating func noteCall(_ reply: Reply) {
    switch reply {
    case .answer(won: true, _): inCallUntil = .distantFuture
    case .call(let state) where state.phase == .ended: inCallUntil = Timestamp(microseconds: 0)
    case .call, .answer, .attached, .registered, .calls, .history, .done, .error, .rules, .app:
      break
    }
  }
}

extension Reply {
  /// Whether it holds more for the device than that its command arrived. A device that reports that it rings, or
  /// that its media flow, needs no prompt reply, unless the call is over.
  fileprivate func isNews(to command: Command.Body) -> Bool {
    switch (command, self) {
    case (.call(_, .alerting), .call(let state)): state.phase != .ringing
    case (.call(_, .connected), .done): false
    default: true
    }
  }
}
