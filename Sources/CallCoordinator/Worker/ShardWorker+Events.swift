internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// The effect of each event.
extension ShardWorker {
  func handle(_ event: WorkerEvent, now: Timestamp) {
    switch event {
    case .commands(let shard, let parcel): receiveCommands(shard, parcel, now: now)
    case .appended(let term, let number, let result):
      if let shard = flying(term, number) { appendAnswered(shard, result, now: now) }
    case .appendLookedUp(let term, let number, let result):
      if let shard = flying(term, number) { advanceAppend(.lookedUp(result), shard, now: now) }
    case .registrationWritten(let term, let key, let result):
      registrationWritten(term, key, result, now: now)
    case .registrationRead(let term, let key, let entry):
      if let shard = holding(term) { registrationRead(shard, key, entry, now: now) }
    case .registrationFailed(let term, let token):
      registrationEnded(term, token, ok: false, now: now)
    case .pushAdded(let number, let result): pushAdded(number, result, now: now)
    case .recordsAdded(let number, let result): recordsAdded(number, result, now: now)
    case .historyAdded(let number, let result): historyAdded(number, result, now: now)
    case .historyRead(let item, let page): historyRead(item, page, now: now)
    case .unreadRead(let number, let log): unreadRead(number, log)
    case .eventsAdded(let app, let number, let result):
      appEventsAdded(app, number, result, now: now)
    case .tokenStep(let term, let token, let result):
      tokenStepDone(term, token, result, now: now)
    case .peerAnswer(let bytes): receiveAnswers(bytes, now: now)
    case .journalFormat(let format):
      journalFormat = format
      for shard in held { shard.map(restrict) }
    case .announceDone(let shard, let done):
      guard authenticator.isEdge(done.edge, done.secret) else {
        return rejected(1, shard, Self.noEdge, now: now)
      }
      if let shard = holding(ShardTerm(shard: shard, epoch: done.epoch)) {
        edgeAnnounced(done, shard, now: now)
      }
    case .receivedOwnHeartbeat(let since): receivedOwnHeartbeat(since: since, now: now)
    case .edgeLost(let edge, let until): edgeLost(edge, awaitedUntil: until, now: now)
    case .edgeReturned(let edge): edgeReturned(edge, now: now)
    case .ownEdgeChanged(let term):
      if let shard = holding(term), shard.keepsTime { askForSessions(shard) }
    case .beginRecovery(let term): beginRecovery(term)
    case .adopt(let shard): adopt(shard, now: now)
    case .abandon(let term): if recovering[term.shard]?.term == term { abandon(term.shard) }
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
    case .recovered(let term): recovered(term, now: now)
    case .deposed(let shard, let epoch):
      if let shard = held[shard], shard.term.epoch < epoch {
        stepDown(shard, "the lease is another's, with epoch \(epoch)")
      }
      if let term = recovering[shard]?.term, term.epoch < epoch { abandon(shard) }
    }
  }

  /// The shard, if it is held in that term.
  func holding(_ term: ShardTerm) -> HeldShard? {
    guard let shard = held[term.shard], shard.term == term else { return nil }
    return shard
  }

  /// Decides nothing that another coordinator could not read in the journal.
  func restrict(_ shard: HeldShard) {
    shard.machine.mayPush = journalFormat >= ClusterCodec.pushFormat
    shard.machine.mayMove = journalFormat >= ClusterCodec.moveFormat
    shard.machine.mayDivert = journalFormat >= ClusterCodec.divertFormat
    shard.machine.mayTransfer = journalFormat >= ClusterCodec.transferFormat
  }

  private func flying(_ term: ShardTerm, _ number: UInt64) -> HeldShard? {
    guard let shard = holding(term), shard.flight?.number == number else { return nil }
    return shard
  }
}
