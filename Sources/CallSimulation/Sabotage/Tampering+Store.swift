internal import CallBus
internal import CallCore
internal import CallWire

/// Mistakes of the store, and with what it has.
extension Tampering {
  func prepareStore() {
    switch sabotage {
    case .noExpectedSequence:
      nats.tamper.ignoresJournalExpectation = true
      nats.tamper.changesAppend = { Self.edit($0) { $0.previous = nil } }
    case .chainIgnored:
      nats.tamper.ignoresJournalExpectation = true
      nats.tamper.changesRecord = {
        StoredRecord(sequence: $1.sequence, bytes: Self.edit($1.bytes) { $0.previous = nil })
      }
    case .speaksBeforeAppend: nats.tamper.answersAppendsEarly = true
    case .registrationNotStored:
      nats.tamper.forgetsPut = { bucket, _ in bucket == SimOptions.registrationBucket }
    case .registrationUnfenced:
      nats.tamper.bucketExpectationIgnored = { $0 == SimOptions.registrationBucket }
      // Delayed, so that some arrive after the shard has changed its owner.
      nats.tamper.holdsPutBack = { [unowned self] bucket in
        guard bucket == SimOptions.registrationBucket, !nats.faults.isNone else { return false }
        return random.chance(0.2)
      }
    case .deadlineLostOnReplay:
      nats.tamper.changesRecord = {
        StoredRecord(sequence: $1.sequence, bytes: Self.edit($1.bytes, Self.postponeDeadlines))
      }
    case .callerNameLost:
      nats.tamper.changesRecord = {
        StoredRecord(sequence: $1.sequence, bytes: Self.edit($1.bytes, Self.forgetNames))
      }
    case .recordDropped:
      nats.observers.appended.append { [unowned self] _, shard, record in
        let count = nats.store.journals[shard].count
        guard random.chance(0.02), count > 1,
          let content = try? ClusterCodec.journalRecord(record.bytes), !content.entries.isEmpty
        else { return }
        nats.store.lose(shard: shard, index: count - 1)
      }
    case .lateDeclineEnds:
      nats.observers.appended.append { [unowned self] _, _, record in
        guard let record = try? ClusterCodec.journalRecord(record.bytes) else { return }
        for entry in record.entries {
          if case .answered(let facts) = entry.change { winners[entry.call] = facts.by }
        }
      }
    case .calledBackInVain:
      nats.observers.appended.append { [unowned self] _, _, record in
        guard let record = try? ClusterCodec.journalRecord(record.bytes) else { return }
        for entry in record.entries {
          switch entry.change {
          case .diverted, .legEnded: left.insert(entry.call)
          default: break
          }
        }
      }
    case .pullNotCompared, .winnerBelievedBack:
      nats.observers.appended.append { [unowned self] _, _, record in
        guard let record = try? ClusterCodec.journalRecord(record.bytes) else { return }
        record.entries.forEach(noteHolder)
      }
    case .appliedTwice:
      // A shard that applies a placing, an answer or an end twice journals it twice.
      nats.tamper.changesAppend = { [unowned self] in
        Self.edit($0) { record in
          record.entries = record.entries.flatMap { isSaidTwice($0.change) ? [$0, $0] : [$0] }
        }
      }
    case .pushedTwice:
      nats.tamper.changesJobID = { [unowned self] id in
        jobs += 1
        return "\(id).\(jobs)"
      }
    case .formerOwnerNotTold:
      nats.tamper.hidesEntry = { $0 == SimOptions.tokenBucket }
      nats.tamper.bucketExpectationIgnored = { $0 == SimOptions.tokenBucket }
    case .recordsNotTakenOver:
      nats.tamper.changesRecord = {
        StoredRecord(sequence: $1.sequence, bytes: Self.edit($1.bytes, Self.markRecorded))
      }
    case .divertedToCaller:
      nats.tamper.changesAppend = { [unowned self] in Self.edit($0, divertToCallers) }
    case .turnsReversed: nats.tamper.changesAppend = { Self.edit($0, Self.reverseTurns) }
    case .turnSkipped: nats.tamper.changesAppend = { Self.edit($0, Self.skipTurns) }
    case .rulesLost:
      nats.tamper.forgetsPut = { SimOptions.user(rulesKey: $1) != nil }
    case .ruleMisread: nats.tamper.changesAppend = { Self.edit($0, Self.misreadRules) }
    case .silenceForgotten:
      nats.tamper.changesEntry = { Self.editRules($0, $1) { $0.doNotDisturb = nil } }
    case .stagesForgotten:
      nats.tamper.changesEntry = { Self.editRules($0, $1) { $0.firstDevices = [] } }
    case .recordLost:
      nats.tamper.changesRecords = { [unowned self] in random.chance(0.1) ? nil : $0 }
    case .recordInvented:
      nats.tamper.changesRecords = { [unowned self] in
        random.chance(0.1) ? Self.withInvention($0) : $0
      }
    case .recordWithoutWay: nats.tamper.changesRecords = { Self.withoutWays($0) }
    case .historyLost:
      nats.tamper.changesHistory = { [unowned self] in random.chance(0.1) ? nil : $0 }
    case .historyInvented:
      nats.tamper.changesHistory = { [unowned self] in
        random.chance(0.1) ? Self.withOtherCall($0) : $0
      }
    case .eventLost:
      nats.tamper.changesAppStream = { [unowned self] in random.chance(0.1) ? nil : $0 }
    case .eventInvented:
      nats.tamper.changesAppStream = { [unowned self] in
        random.chance(0.1) ? Self.withInventedEvent($0) : $0
      }
    case .sentTooLate: nats.tamper.changesJob = Self.withLaterDeadline
    case .pushedAfterEnd, .cleanUpToWinner, .noticeToDecliner:
      nats.tamper.changesAppend = { [unowned self] in Self.edit($0, changePushes) }
    // Messages are changed on their way.
    default: break
    }
  }

  fileprivate func isSaidTwice(_ change: JournalEntry.Change) -> Bool {
    switch change {
    case .placed: twice == .placing
    case .answered: twice == .answer
    case .ended: twice == .end
    // Signals are repeated on their way to the shard.
    default: false
    }
  }

  fileprivate static func forgetNames(_ record: inout JournalRecord) {
    for index in record.entries.indices {
      guard case .placed(var facts) = record.entries[index].change else { continue }
      facts.caller.name = ""
      record.entries[index].change = .placed(facts)
    }
  }

  fileprivate static func postponeDeadlines(_ record: inout JournalRecord) {
    for index in record.entries.indices {
      guard case .placed(var facts) = record.entries[index].change else { continue }
      facts.deadline = facts.deadline + .seconds(3600)
      record.entries[index].change = .placed(facts)
    }
  }
}
