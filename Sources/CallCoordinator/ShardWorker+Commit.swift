internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Decide, append, then speak.
extension ShardWorker {
  /// Carries out what is due for a shard, and starts its next append.
  func lookAfter(_ shard: Int, now: Timestamp) {
    guard held[shard] != nil else { return }
    if let release = held[shard]!.release, release.deadline <= now {
      return stepDown(shard, "it could not be released in time")
    }
    if case .announcing(let until, let awaiting) = held[shard]!.phase,
      awaiting.isEmpty || until <= now
    {
      begin(shard, unheard: awaiting, now: now)
    }
    if held[shard]!.keepsTime, held[shard]!.machine.nextDeadline <= now {
      let isHeldBack = isHeldBack(shard, now: now)
      decide(shard, now: now) { $0.fire(now: now, isHeldBack: isHeldBack, into: &$1) }
    }
    if held[shard]!.keepsTime, held[shard]!.askAgainAt <= now {
      askForSessions(shard)
      scheduleAsking(shard, now: now)
    }
    if let flight = held[shard]!.flight {
      if let at = flight.resumeAt, at <= now { resume(shard, now: now) }
    } else {
      appendNext(shard, now: now)
    }
    countHeldBack(shard)
    countCalls(shard)
  }

  /// Whether nobody can say anything to this shard, so that nobody's silence counts: the node does not hear itself
  /// through the bus, or an append has been under way for as long as a device has to acknowledge.
  private func isHeldBack(_ shard: Int, now: Timestamp) -> Bool {
    if let hearing, hearing.at + with.configuration.gapMax < now { return true }
    return isAppendSlow(shard, now: now)
  }

  private func isAppendSlow(_ shard: Int, now: Timestamp) -> Bool {
    guard let flight = held[shard]!.flight else { return false }
    let first = with.configuration.limits.deliveryRepeats.first ?? .seconds(1)
    return flight.startedAt + first <= now
  }

  private func appendNext(_ shard: Int, now: Timestamp) {
    if held[shard]!.isQuiet {
      snapshotIfAsked(shard, now: now)
      if case .parting = held[shard]!.phase, held[shard]!.storesOutstanding == 0 {
        appendLast(shard, now: now)
      }
      return
    }
    // A shard that parts does not wait for company.
    var latest = now
    if case .parting = held[shard]!.phase { latest = held[shard]!.pipeline.nextDeadline }
    guard var record = held[shard]!.pipeline.nextAppend(now: latest) else { return }
    record.at = now
    let follows = held[shard]!.pipeline.lastSequence
    record.follows = follows
    var flight = HeldShard.Flight(
      number: record.number, bytes: ClusterCodec.encode(record), follows: follows,
      expecting: held[shard]!.journalEnd, entries: record.entries, startedAt: now)
    flight.milestones = held[shard]!.machine.milestones(in: record.entries)
    // All that the rules decided so far is in this record: once the journal has it, the calls are
    // exactly what the journal tells. No other moment of a busy shard is as good for a checkpoint.
    if wantsCheckpoint(shard, now: now) { flight.snapshot = held[shard]!.machine.snapshot }
    held[shard]!.flight = flight
    append(shard)
  }

  private func appendLast(_ shard: Int, now: Timestamp) {
    let pipeline = held[shard]!.pipeline
    let record = JournalRecord(
      epoch: pipeline.epoch, number: pipeline.lastNumber + 1, writer: pipeline.writer, at: now,
      entries: [], released: true, follows: pipeline.lastSequence)
    held[shard]!.flight = HeldShard.Flight(
      number: record.number, bytes: ClusterCodec.encode(record), follows: pipeline.lastSequence,
      expecting: held[shard]!.journalEnd, entries: [], startedAt: now, isLast: true)
    append(shard)
  }

  private func append(_ shard: Int) {
    guard let flight = held[shard]!.flight else { return }
    let term = held[shard]!.term
    let inbox = inbox
    with.journal.append(shard: shard, expecting: flight.expecting, flight.bytes) { result in
      inbox.offer(.appended(term, number: flight.number, result))
    }
  }

  // MARK: Answers

  func appendAnswered(_ shard: Int, _ result: AppendResult, now: Timestamp) {
    touch(shard)
    switch result {
    case .appended(let sequence)
    where with.journal.isNext(sequence, behind: held[shard]!.flight!.expecting):
      commit(shard, sequence, end: sequence, now: now)
    case .appended:
      // Something came between. Whether this record counts, the journal tells.
      lookUpLater(shard, at: now)
    case .refused:
      // It has another owner; or an earlier attempt of the same append arrived after all; or a
      // stream's new leader has not applied yet what the former one acknowledged.
      held[shard]!.flight!.refusals += 1
      lookUpLater(shard, at: now)
    case .unknown(let reason):
      with.metrics.appendsUnknown.increment()
      with.logger.warning(
        "An append has no answer; the journal's end will tell.",
        metadata: .keys([
          .shard: "\(shard)", .epoch: "\(held[shard]!.term.epoch)", .error: "\(reason)",
        ]))
      lookUpLater(shard, at: now)
    }
  }

  private func lookUpLater(_ shard: Int, at time: Timestamp) {
    held[shard]!.flight!.resume = .look
    held[shard]!.flight!.resumeAt = time
  }

  private func resume(_ shard: Int, now: Timestamp) {
    guard let flight = held[shard]!.flight else { return }
    held[shard]!.flight!.resumeAt = nil
    switch flight.resume {
    case .look:
      let term = held[shard]!.term
      lookups.append(
        Lookup(
          term: term,
          question: Settlement.Question(
            follows: flight.follows, expecting: flight.expecting,
            writer: with.configuration.writer, epoch: term.epoch, number: flight.number)))
    case .append:
      held[shard]!.flight!.attempts += 1
      append(shard)
    }
  }

  nonisolated func lookUp(_ lookup: Lookup) async {
    let settlement = await Settlement.look(
      lookup.question, shard: lookup.term.shard, in: with.journal)
    inbox.offer(.settled(lookup.term, number: lookup.question.number, settlement))
  }

  /// Refusals of one append that its journal's end does not explain, before the shard is given up.
  private static var refusalsMax: Int { 3 }

  func appendSettled(_ shard: Int, _ settlement: Settlement, now: Timestamp) {
    touch(shard)
    let attempts = held[shard]!.flight!.attempts
    if case .unchanged(let end) = settlement { held[shard]!.flight!.expecting = end }
    switch settlement {
    case .ours(let sequence, let end): commit(shard, sequence, end: end, now: now)
    case .foreign:
      with.metrics.appendsRefused.increment()
      stepDown(shard, "another owner's record stands where its append should be")
    case .unchanged where held[shard]!.flight!.refusals >= Self.refusalsMax:
      with.metrics.appendsRefused.increment()
      stepDown(shard, "the journal refuses its appends")
    case .unchanged where attempts >= with.configuration.appendAttemptsMax:
      stepDown(shard, "the journal did not take a record in \(attempts) attempts")
    case .unchanged:
      held[shard]!.flight!.resume = .append
      // The first time at once; then slower.
      let pause = attempts == 1 ? 0 : min(1000, 20 << min(attempts, 6))
      held[shard]!.flight!.resumeAt = now + .milliseconds(Int64(pause))
    case .unreadable:
      held[shard]!.flight!.resume = .look
      held[shard]!.flight!.resumeAt = now + .milliseconds(250)
    }
  }

  /// The record is in the journal: what waited for it may leave.
  private func commit(_ shard: Int, _ sequence: UInt64, end: UInt64, now: Timestamp) {
    guard let flight = held[shard]!.flight else { return }
    if isAppendSlow(shard, now: now) { held[shard]!.machine.wasHeldBack(now: now) }
    held[shard]!.flight = nil
    held[shard]!.journalEnd = end
    with.metrics.appends.increment()
    with.metrics.entries.increment(by: UInt64(flight.entries.count))
    with.metrics.appendLatency.record(microseconds: (now - flight.startedAt).microseconds)
    if flight.isLast { return part(shard) }
    held[shard]!.pipeline.appended(sequence: sequence) { released.append($0) }
    held[shard]!.tail.add(bytes: flight.bytes.count, at: flight.startedAt)
    seeRoom(shard)
    note(flight, shard)
    for effect in released { perform(effect, shard, now: now) }
    released.removeAll(keepingCapacity: true)
    placing.removeAll(keepingCapacity: true)
    if let snapshot = flight.snapshot { handOver(snapshot, sequence, shard) }
  }

  private func perform(_ effect: Effect, _ shard: Int, now: Timestamp) {
    switch effect {
    case .reply(let session, let request, let reply):
      with.metrics.replies.increment()
      outbox.add(session, .reply(request: request, reply))
    case .deliver(_, let delivery) where delivery.event.isInvite(before: now):
      // The journal was slow: the end follows.
      with.metrics.invitesTooLate.increment()
    case .deliver(let session, let delivery):
      with.metrics.deliveries.increment()
      outbox.add(session, .delivery(delivery), ringsSince: ringsSince(delivery))
    case .notice(let session, let notice): outbox.add(session, .notice(notice))
    case .close(let session, let notice): outbox.add(session, .close(notice))
    case .store(let registration, let token):
      let key = RegistrationWrites.Key(registration.user, registration.device)
      write(key, ClusterCodec.encode(registration), token, shard, now: now)
    case .remove(let user, let device, let token):
      write(RegistrationWrites.Key(user, device), nil, token, shard, now: now)
    case .push(let job): add(job, shard, now: now)
    case .withdrawPushes(let call): withdrawals.append(call)
    case .token(let step, let token): carryOut(step, token, shard, now: now)
    case .releaseToken(let fingerprint, let owner): releases.append((fingerprint, owner))
    }
  }

  // MARK: Checkpoints

  private func wantsCheckpoint(_ shard: Int, now: Timestamp) -> Bool {
    !held[shard]!.checkpointWaiters.isEmpty || held[shard]!.checkpointDue <= now
  }

  /// A quiet shard is at its last record.
  private func snapshotIfAsked(_ shard: Int, now: Timestamp) {
    guard wantsCheckpoint(shard, now: now) else { return }
    if held[shard]!.tail == JournalTail() {
      // One that is being written will do.
      guard held[shard]!.tailHandedOver == nil else { return }
      let waiters = held[shard]!.checkpointWaiters
      held[shard]!.checkpointWaiters.removeAll()
      for done in waiters { done(true) }
      return
    }
    handOver(held[shard]!.machine.snapshot, held[shard]!.pipeline.lastSequence, shard)
  }

  private func handOver(_ snapshot: ShardSnapshot, _ sequence: UInt64, _ shard: Int) {
    let waiters = held[shard]!.checkpointWaiters
    held[shard]!.checkpointWaiters.removeAll()
    // Where two are being written, the later one makes superfluous what both do.
    if let former = held[shard]!.tailHandedOver { held[shard]!.tail.prepend(former.tail) }
    held[shard]!.tailHandedOver = (sequence, held[shard]!.tail)
    held[shard]!.tail = JournalTail()
    let term = held[shard]!.term
    let inbox = inbox
    with.writeCheckpoint(
      CheckpointJob(
        shard: shard, epoch: term.epoch, sequence: sequence, snapshot: snapshot,
        isAwaited: !waiters.isEmpty
      ) { ok in
        inbox.offer(.checkpointEnded(term, sequence: sequence, ok: ok))
        for done in waiters { done(ok) }
      })
  }

  /// What could not be cut off counts again, and is tried again after a while.
  func checkpointEnded(_ shard: Int, _ sequence: UInt64, ok: Bool, now: Timestamp) {
    guard let former = held[shard]!.tailHandedOver, former.sequence == sequence else { return }
    held[shard]!.tailHandedOver = nil
    touch(shard)
    if ok {
      held[shard]!.keptBytes = former.tail.bytes
      // The next one purges what this one has made superfluous.
      if held[shard]!.room(of: with.configuration.journal.bytesPerShard) != .enough {
        held[shard]!.tail.isUnwanted = true
      }
    } else {
      held[shard]!.tail.prepend(former.tail)
      held[shard]!.checkpointNotBefore = now + with.configuration.checkpointRetry
    }
    seeRoom(shard)
  }

  private func seeRoom(_ shard: Int) {
    let room = held[shard]!.room(of: with.configuration.journal.bytesPerShard)
    let former = held[shard]!.machine.room
    guard room != former else { return }
    held[shard]!.machine.room = room
    with.logger.warning(
      room == .enough
        ? "The shard's journal has room again."
        : "The shard's journal is filling up: calls are refused.",
      metadata: .keys([.shard: "\(shard)", .state: "\(room)"]))
  }
}

extension Delivery.Event {
  /// Whether it tells to ring until a time that is over.
  fileprivate func isInvite(before now: Timestamp) -> Bool {
    if case .invite(let invite) = self { invite.deadline <= now } else { false }
  }
}
