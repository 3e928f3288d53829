package import CallBus
package import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Appends what was decided, and releases its effects.
extension ShardWorker {
  /// Carries out what is due for a shard, and starts its next append.
  func advance(_ shard: HeldShard, now: Timestamp) {
    if let release = shard.release, release.deadline <= now {
      return stepDown(shard, "it could not be released in time")
    }
    if case .announcing(let until, let awaiting) = shard.phase, awaiting.isEmpty || until <= now {
      begin(shard, unannounced: awaiting, now: now)
    }
    if shard.keepsTime, shard.machine.nextDeadline <= now {
      let isHeldBack = isHeldBack(shard, now: now)
      decide(shard, now: now) { $0.fire(now: now, isHeldBack: isHeldBack, into: &$1) }
    }
    if shard.keepsTime, shard.askAgainAt <= now {
      askForSessions(shard)
      scheduleAsking(shard, now: now)
    }
    if let flight = shard.flight {
      if flight.append.nextDeadline <= now { advanceAppend(.time, shard, now: now) }
    } else {
      appendNext(shard, now: now)
    }
    count(shard)
  }

  /// Whether the silence of devices and edges does not count, because the shard cannot be reached: the node does not
  /// receive its own heartbeats, or an append has taken as long as a device has to acknowledge.
  private func isHeldBack(_ shard: HeldShard, now: Timestamp) -> Bool {
    if let ownHeartbeat, ownHeartbeat.at + configuration.gapMax < now { return true }
    return isAppendSlow(shard, now: now)
  }

  private func isAppendSlow(_ shard: HeldShard, now: Timestamp) -> Bool {
    guard let flight = shard.flight else { return false }
    let first = configuration.limits.deliveryRepeats.first ?? .seconds(1)
    return flight.startedAt + first <= now
  }

  private func appendNext(_ shard: HeldShard, now: Timestamp) {
    if shard.isQuiet {
      snapshotIfAsked(shard, now: now)
      if case .parting = shard.phase, shard.storesOutstanding == 0 { appendLast(shard, now: now) }
      return
    }
    // A shard that parts does not wait for further entries.
    var latest = now
    if case .parting = shard.phase { latest = shard.pipeline.nextDeadline }
    guard var record = shard.pipeline.nextAppend(now: latest) else { return }
    record.at = now
    record.previous = shard.pipeline.lastSequence
    let flight = flight(record, shard)
    flight.milestones = shard.machine.milestones(in: record.entries)
    // If this record holds everything that was decided so far, calls and journal agree exactly once it is stored: a busy
    // shard has no better moment for a checkpoint. The calls are ahead of a record that was closed early.
    if shard.pipeline.holdsNothingBack, wantsCheckpoint(shard, now: now) {
      flight.snapshot = shard.machine.snapshot
    }
    start(flight, shard)
  }

  private func appendLast(_ shard: HeldShard, now: Timestamp) {
    let pipeline = shard.pipeline
    let record = JournalRecord(
      epoch: pipeline.epoch, number: pipeline.lastNumber + 1, writer: pipeline.writer, at: now,
      entries: [], released: true, previous: pipeline.lastSequence)
    let flight = flight(record, shard)
    flight.isLast = true
    start(flight, shard)
  }

  private func flight(_ record: JournalRecord, _ shard: HeldShard) -> HeldShard.Flight {
    HeldShard.Flight(
      record, ClusterCodec.encode(record),
      AppendMachine(
        expecting: shard.journalEnd,
        rules: AppendMachine.Rules(attemptsMax: configuration.appendAttemptsMax)),
      previous: shard.pipeline.lastSequence)
  }

  private func start(_ flight: HeldShard.Flight, _ shard: HeldShard) {
    shard.flight = flight
    append(flight, shard, expecting: shard.journalEnd)
  }

  private func append(_ flight: HeldShard.Flight, _ shard: HeldShard, expecting: UInt64) {
    let (term, number, inbox) = (shard.term, flight.number, inbox)
    journal.append(shard: shard.number, expecting: expecting, flight.bytes) { result in
      inbox.offer(.appended(term, number: number, result))
    }
  }

  // MARK: Answers

  func appendAnswered(_ shard: HeldShard, _ result: AppendResult, now: Timestamp) {
    guard let flight = shard.flight else { return }
    switch result {
    case .appended(let sequence):
      let isNext = journal.isNext(sequence, after: flight.append.expecting)
      advanceAppend(.appended(sequence: sequence, isNext: isNext), shard, now: now)
    case .refused: advanceAppend(.refused, shard, now: now)
    case .unknown(let reason):
      metrics.appendsUnknown.increment()
      logger.warning(
        "An append has no answer; the journal's end will tell.",
        metadata: shard.keys([.error: "\(reason)"]))
      advanceAppend(.unanswered, shard, now: now)
    }
  }

  /// Lets the append's state machine decide, and carries out its action.
  func advanceAppend(_ event: AppendMachine.Event, _ shard: HeldShard, now: Timestamp) {
    touch(shard.number)
    guard let action = shard.flight?.append.handle(event, now: now), let flight = shard.flight
    else { return }
    switch action {
    case .append(let expecting): append(flight, shard, expecting: expecting)
    case .lookUp(let expecting):
      let question = LookupResult.Question(
        previous: flight.previous, expecting: expecting, writer: configuration.writer,
        epoch: shard.term.epoch, number: flight.number)
      jobs.append(.lookUp(shard.term, question))
    case .commit(let sequence, let end): commit(flight, shard, sequence, end: end, now: now)
    case .giveUp(let reason):
      if case .attempts = reason {} else { metrics.appendsRefused.increment() }
      stepDown(shard, reason.sentence)
    }
  }

  nonisolated func lookUp(_ question: LookupResult.Question, _ term: ShardTerm) async {
    let result = await LookupResult.read(question, shard: term.shard, in: journal)
    inbox.offer(.appendLookedUp(term, number: question.number, result))
  }

  /// The journal has the record: releases the effects that waited for it.
  private func commit(
    _ flight: HeldShard.Flight, _ shard: HeldShard, _ sequence: UInt64, end: UInt64, now: Timestamp
  ) {
    if isAppendSlow(shard, now: now) { shard.machine.wasHeldBack(now: now) }
    shard.flight = nil
    shard.journalEnd = end
    metrics.appends.increment()
    metrics.entries.increment(by: UInt64(flight.entries.count))
    metrics.appendLatency.record(microseconds: (now - flight.startedAt).microseconds)
    if flight.isLast { return part(shard) }
    shard.pipeline.appended(sequence: sequence, releasing: &released)
    shard.tail.add(bytes: flight.bytes.count, at: flight.startedAt)
    updateRoom(shard)
    note(flight, shard)
    for index in released.indices { perform(released[index], shard, now: now) }
    released.removeAll(keepingCapacity: true)
    placedCalls.removeAll(keepingCapacity: true)
    if let snapshot = flight.snapshot { handOver(snapshot, sequence, shard) }
  }

  private func perform(_ effect: Effect, _ shard: HeldShard, now: Timestamp) {
    switch effect {
    case .reply(let session, let request, let reply):
      metrics.replies.increment()
      outbox.add(session, .reply(request: request, reply))
    case .deliver(_, let delivery) where delivery.event.isInvite(before: now):
      // The journal was slow; the call's end follows.
      metrics.invitesTooLate.increment()
    case .deliver(let session, let delivery):
      metrics.deliveries.increment()
      shard.deliveriesTotal += 1
      outbox.add(session, .delivery(delivery), ringsSince: ringsSince(delivery))
    case .showOngoing(let session, let ongoing):
      metrics.deliveries.increment()
      outbox.add(session, .ongoing(ongoing))
    case .showName(let session, let name): outbox.add(session, .name(name))
    case .notice(let session, let notice): outbox.add(session, .notice(notice))
    case .close(let session, let notice): outbox.add(session, .close(notice))
    case .store(let registration, let token):
      let key = RegistrationWrites.Key(registration.user, registration.device)
      write(key, ClusterCodec.encode(registration), token, shard, now: now)
    case .remove(let user, let device, let token):
      write(RegistrationWrites.Key(user, device), nil, token, shard, now: now)
    case .storeRules(let user, let rules, let token):
      let value = rules.map { ClusterCodec.encode(StoredRules(user: user, rules: $0)) }
      write(RegistrationWrites.Key(user, nil), value, token, shard, now: now)
    case .push(let job): add(job, shard, now: now)
    case .record(let call): add(record: call, shard, now: now)
    case .history(let effect): perform(effect, shard, now: now)
    case .events(let call, let kinds): add(events: kinds, of: call, shard, now: now)
    case .deviceEvent(let event, let token):
      add(deviceEvent: event, token, shard, now: now)
    case .withdrawPushes(let ringing): withdrawals.append(ringing)
    case .tell(let user, let device, let body, let until):
      tell(user, device, body, until: until, shard.term, now: now)
    case .visit(let user, let request):
      ask(about: request, user, shard.term, now: now)
    case .visitAnswer(let session, let request, let answer):
      outbox.add(session, .visit(request: request, answer))
    case .token(let step, let token): carryOut(step, token, shard, now: now)
    case .releaseToken(let fingerprint, let owner):
      jobs.append(.releaseToken(fingerprint: fingerprint, owner))
    }
  }
}

extension Delivery.Event {
  /// Whether it is an invite whose deadline has passed.
  fileprivate func isInvite(before now: Timestamp) -> Bool {
    if case .invite(let invite) = self { invite.deadline <= now } else { false }
  }
}

package typealias LookupResult = AppendMachine.LookupResult

extension LookupResult {
  /// - Parameter records: all records behind the one that was expected to be the last, in order.
  package static func evaluate(_ question: Question, behind records: [StoredRecord]) -> Self {
    evaluate(
      question,
      behind: records.lazy.map { ($0.sequence, try? ClusterCodec.journalRecord($0.bytes)) })
  }

  /// Reads the journal, and evaluates it.
  static func read(_ question: Question, shard: Int, in journal: any Journal) async -> Self {
    do {
      let last = try await journal.last(shard: shard)?.sequence ?? 0
      if last == 0, question.expecting > 0 { return .foreign }
      // A leader that was cut off shows an older end than the known one.
      if last < question.expecting { return .unreadable("the journal's end is not up to date") }
      var records: [StoredRecord] = []
      while records.last?.sequence ?? question.expecting < last {
        let next = try await journal.records(
          shard: shard, from: (records.last?.sequence ?? question.expecting) + 1, limit: 64)
        if next.isEmpty { return .unreadable("the journal's end is not up to date") }
        records += next
        // Only another owner can have appended so many.
        if records.count > 10_000 { return .foreign }
      }
      return evaluate(question, behind: records)
    } catch {
      return .unreadable("\(error)")
    }
  }
}
