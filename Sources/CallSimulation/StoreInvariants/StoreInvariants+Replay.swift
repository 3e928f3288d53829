internal import CallBus
internal import CallCoordinator
internal import CallCore
internal import CallWire

/// Nothing that was acknowledged is lost: checkpoint and journal together always have the facts of all
/// records.
extension StoreInvariants {
  /// Replays a shard from the store, and compares it with all records.
  func checkReplay(_ shard: Int) {
    world.count("store.replays compared")
    let stored = nats.store.records(shard, from: 1)
    let count = shards[shard].records
    reader.read(shard) { [unowned self] result in
      // No time has passed, but a record may have come at the same time.
      if shards[shard].records != count { return checkReplay(shard) }
      switch result {
      case .failure(let failure): broken("the checkpoint of shard \(shard): \(failure)")
      case .success(let checkpoint): compare(shard, checkpoint, stored)
      }
    }
  }

  private func compare(_ shard: Int, _ checkpoint: Checkpoint?, _ stored: [StoredRecord]) {
    var machine = ShardMachine(shard: shard, epoch: 1, limits: limits)
    machine.replay(checkpoint?.entries ?? [], now: world.now)
    let start = checkpoint?.sequence ?? 0
    var chain = JournalChain(position: start, end: start)
    for each in stored where each.sequence > start {
      guard let record = try? ClusterCodec.journalRecord(each.bytes) else { continue }
      if chain.append(each.sequence, previous: record.previous) == .void { continue }
      machine.replay(record.entries, now: record.at)
    }
    let all = facts(of: shards[shard].all)
    let kept = facts(of: machine)
    for (call, entries) in all where kept[call] != entries {
      return broken(
        "shard \(shard)'s checkpoint and journal tell another story than its records did: "
          + Self.difference(kept[call] ?? [], entries), call: call)
    }
    if let call = kept.keys.first(where: { all[$0] == nil }) {
      broken("shard \(shard)'s checkpoint has a call that no record told of", call: call)
    }
  }

  /// The calls that must still be stored, each with its entries.
  private func facts(of machine: ShardMachine) -> [CallID: [JournalEntry]] {
    var calls: [CallID: [JournalEntry]] = [:]
    var forgettable: Set<CallID> = []
    var moved: Set<CallID> = []
    for entry in machine.checkpointEntries() {
      switch entry.change {
      // The effects of sessions may change without a record, and are only in checkpoints.
      case .callerLost, .winnerLost, .legEnded(_, .gone, _): continue
      // Acknowledged signals are in no checkpoint.
      case .signal: continue
      // The history's rules judge the records themselves.
      case .recorded: continue
      // The marks of a device that gave its side up may be left. At worst a signal of the new device is taken for its
      // repetition: one with the same number and the same content.
      case .placed(let facts) where !facts.signalsTaken.isEmpty && moved.contains(entry.call):
        continue
      // A device's name may change with its session. When it first alerted, a replay knows from the record's time.
      case .placed(var facts):
        facts.firstAlerting = nil
        for leg in facts.legs.indices { facts.legs[leg].deviceName = "" }
        calls[entry.call, default: []].append(
          JournalEntry(call: entry.call, change: .placed(facts)))
      case .moved:
        moved.insert(entry.call)
        calls[entry.call, default: []].append(entry)
      case .legJoined, .alerting, .answered, .legEnded, .connected, .ended, .settled,
        .pushed, .diverted, .transferEnded:
        calls[entry.call, default: []].append(entry)
      }
      // A clock that is ahead forgets earlier.
      if case .ended(let facts) = entry.change,
        facts.at + limits.endedCallKept <= world.now + .seconds(10)
      {
        forgettable.insert(entry.call)
      }
    }
    for call in forgettable { calls[call] = nil }
    return calls
  }

  /// The first entries that differ, in full: what matters may be what `SimText` leaves out.
  private static func difference(_ kept: [JournalEntry], _ all: [JournalEntry]) -> String {
    let same = zip(kept, all).prefix { $0 == $1 }.count
    let (have, had) = (kept.dropFirst(same).first, all.dropFirst(same).first)
    return "after \(same) equal entries \(have.map { "\($0.change)" } ?? "nothing") in place of "
      + (had.map { "\($0.change)" } ?? "nothing")
  }

  // MARK: The end

  /// Some seconds after the faults have ended each shard has a live owner.
  package func checkOwners() {
    for shard in shards.indices {
      let last = shards[shard]
      guard last.lastProcess >= 0, world.nodes[last.lastProcess].state == .running,
        !last.lastIsRelease
      else {
        let who = last.lastProcess >= 0 ? world.nodes[last.lastProcess].name : "nobody"
        return broken("shard \(shard) has no owner: its last record is of \(who)")
      }
    }
  }

  /// In the end the store has everything, and the journals are short.
  ///
  /// The number of chunks of older checkpoints has no bound: owners sweep them twice in a term, with best
  /// effort, so a last term that is short, or has faults, leaves them.
  package func checkStore() {
    for shard in shards.indices {
      checkReplay(shard)
      let count = nats.store.records(shard, from: 1).count
      if count > 3 * checkpointEveryRecords + 50 {
        broken("the journal of shard \(shard) still has \(count) records: nobody purges it")
      }
    }
  }
}

/// Reads checkpoints as coordinators do, without a network between.
struct CheckpointReader {
  private let node: SimNode
  private let store: CheckpointStore

  init(_ nats: SimNATS, bucket: String) {
    node = nats.world.makeNode("checker")
    store = CheckpointStore(bucket: DirectBucket(nats: nats, name: bucket))
  }

  /// `body` is called before any time passes.
  func read(_ shard: Int, _ body: @escaping @Sendable (Result<Checkpoint?, any Error>) -> Void) {
    _ = node.start { [store] in
      do { body(.success(try await store.read(shard: shard)?.0)) } catch { body(.failure(error)) }
    }
  }
}

private struct DirectBucket: KeyValueBucket {
  let nats: SimNATS
  let name: String

  func put(
    _ key: String, _ value: [UInt8], expecting: UInt64?,
    completion: @escaping @Sendable (AppendResult) -> Void
  ) { completion(.unknown("only for reading")) }

  func delete(
    _ key: String, expecting: UInt64?, completion: @escaping @Sendable (AppendResult) -> Void
  ) { completion(.unknown("only for reading")) }

  func get(_ key: String) async throws -> KeyValueEntry? { nats.store.get(name, key) }

  func entries(matching filter: String) async throws -> [KeyValueEntry] {
    let filter = SubjectFilter(filter)
    return nats.store.entries(name, filter.matches)
  }

  func watch(
    _ filter: String, handler: @escaping @Sendable (KeyValueEntry) -> Void
  ) async throws -> any BusSubscription { throw BusError.closed }
}
