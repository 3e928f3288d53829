internal import CallBus
internal import CallCore
internal import CallWire

/// Puts one mistake into a world.
final class Tampering {
  let sabotage: Sabotage
  let nats: SimNATS
  private var random: SimRandom
  var winners: [CallID: Party] = [:]
  /// Who has a side of an answered call, first the callee's and then the caller's.
  var holders: [CallID: [Party]] = [:]
  /// Of each call, the devices that no push was decided for.
  var legs: [CallID: [DeviceID]] = [:]
  private var jobs = 0
  var swaps = SignalSwaps()
  /// The callers' present sessions.
  var callers: [CallID: UInt64] = [:]
  private var said: Set<Said> = []
  let twice: Twice
  let credential: (Command) -> Credential

  enum Twice: CaseIterable {
    case signal
    case placing
    case answer
    case end
  }

  private struct Said: Hashable {
    var session: UInt64
    var call: CallID
    var version: UInt64
  }

  init(
    _ sabotage: Sabotage, _ world: SimWorld, _ nats: SimNATS, _ coordinators: [SimCoordinator],
    _ edges: [SimEdge], credential: @escaping (Command) -> Credential
  ) {
    self.sabotage = sabotage
    self.credential = credential
    self.nats = nats
    random = world.fork("sabotage")
    twice = Twice.allCases[Int(world.seed % UInt64(Twice.allCases.count))]
    for coordinator in coordinators {
      coordinator.onConnect = { [unowned self] bus in
        bus.filterOutgoing = { [unowned self] in toEdge($0) }
        bus.filterIncoming = { [unowned self] in toShard($0) }
      }
    }
    if sabotage == .placersAnnounced {
      for edge in edges { edge.onConnect = { $0.filterOutgoing = Self.announcingPlacers } }
    }
    if sabotage == .ongoingUnannounced {
      for edge in edges { edge.onConnect = { $0.filterOutgoing = Self.announcingNoOngoing } }
    }
    let unannounced: ((DeviceID) -> Bool)? =
      switch sabotage {
      case .announcementsIgnored: { _ in true }
      case .secondDeviceUnannounced: { $0.text == "d1" }
      default: nil
      }
    if let unannounced {
      for edge in edges {
        edge.onConnect = { $0.filterOutgoing = { Self.withoutAnnouncements($0, of: unannounced) } }
      }
    }
    prepareStore()
  }

  private func prepareStore() {
    switch sabotage {
    case .noExpectedSequence:
      nats.tamper.ignoresJournalExpectation = true
      nats.tamper.changesAppend = { Self.edit($0) { $0.follows = nil } }
    case .chainIgnored:
      nats.tamper.ignoresJournalExpectation = true
      nats.tamper.changesRecord = {
        StoredRecord(sequence: $1.sequence, bytes: Self.edit($1.bytes) { $0.follows = nil })
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
    case .pullNotCompared:
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
    case .turnSkipped: nats.tamper.changesAppend = { Self.edit($0, Self.skipTurns) }
    case .recordLost:
      nats.tamper.changesRecords = { [unowned self] in random.chance(0.1) ? nil : $0 }
    case .recordInvented:
      nats.tamper.changesRecords = { [unowned self] in
        random.chance(0.1) ? Self.withInvention($0) : $0
      }
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

  // MARK: At a device

  func receiving(_ frame: ServerFrame) -> ServerFrame {
    if sabotage == .attachAnsweredWrongly { return ringing(frame) }
    guard sabotage == .twoWinners, case .reply(let id, .answer(false, let state)) = frame,
      state.reason == .answeredElsewhere
    else { return frame }
    return .reply(id: id, .answer(won: true, state))
  }

  // MARK: From shards to edges

  private func toEdge(_ message: OutgoingMessage) -> OutgoingMessage? {
    guard message.subject.contains(".edge.") else { return message }
    var message = message
    message.bytes = Self.edit(message.bytes, ClusterCodec.edgeBatch, ClusterCodec.encode) {
      $0.items = $0.items.flatMap(changed)
    }
    return message
  }

  private func changed(_ item: EdgeItem) -> [EdgeItem] {
    if case .ongoing(let ongoing) = item.body, sabotage == .ongoingEndHidden {
      return ongoing.calls.isEmpty ? [] : [item]
    }
    guard case .delivery(var delivery) = item.body else { return [item] }
    func again() -> EdgeItem { EdgeItem(session: item.session, body: .delivery(delivery)) }
    switch (sabotage, delivery.event) {
    case (.notRepeated, _):
      let key = Said(session: item.session, call: delivery.call, version: delivery.version)
      return said.insert(key).inserted ? [item] : []
    case (.survivorNotNamed, .stop(var stop)):
      stop.survivor = nil
      delivery.event = .stop(stop)
      return [again()]
    case (.callerNotTold, .stop):
      return callers[delivery.call] == item.session ? [] : [item]
    case (.formerNotStopped, .stop(let stop)): return stop.reason == .moved ? [] : [item]
    case (.moveNotTold, .moved): return []
    case (.stopWithoutReason, .stop):
      delivery.event = .stop(Stop(reason: .failed))
      return [again()]
    case (.versionGoesBack, .stop):
      delivery.version = (delivery.version >> 20) << 20
      return [again()]
    case (.inviteAfterStop, .stop):
      delivery.version += 7
      delivery.event = .invite(
        Invite(caller: Party(user: "u1", device: "d0"), deadline: delivery.at))
      return [item, again()]
    default: return [item]
    }
  }

  // MARK: Records

  private static func edit(_ bytes: [UInt8], _ change: (inout JournalRecord) -> Void) -> [UInt8] {
    edit(bytes, ClusterCodec.journalRecord, ClusterCodec.encode, change)
  }

  /// Changes what bytes encode. Bytes that cannot be read stay as they are.
  static func edit<Value>(
    _ bytes: [UInt8], _ decode: ([UInt8]) throws -> Value, _ encode: (Value) -> [UInt8],
    _ change: (inout Value) -> Void
  ) -> [UInt8] {
    guard var value = try? decode(bytes) else { return bytes }
    change(&value)
    return encode(value)
  }

  private func isSaidTwice(_ change: JournalEntry.Change) -> Bool {
    switch change {
    case .placed: twice == .placing
    case .answered: twice == .answer
    case .ended: twice == .end
    // Signals are repeated on their way to the shard.
    default: false
    }
  }

  private static func forgetNames(_ record: inout JournalRecord) {
    for index in record.entries.indices {
      guard case .placed(var facts) = record.entries[index].change else { continue }
      facts.caller.name = ""
      record.entries[index].change = .placed(facts)
    }
  }

  private static func postponeDeadlines(_ record: inout JournalRecord) {
    for index in record.entries.indices {
      guard case .placed(var facts) = record.entries[index].change else { continue }
      facts.deadline = facts.deadline + .seconds(3600)
      record.entries[index].change = .placed(facts)
    }
  }
}
