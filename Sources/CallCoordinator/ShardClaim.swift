package import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
package import Logging

/// Makes a shard this node's: takes the lease, reads the shard back, and fences the journal.
package struct ShardClaim: Sendable {
  package struct Dependencies: Sendable {
    package var configuration: CoordinatorConfiguration
    package var incarnation: UInt64
    package var subjects: Subjects
    package var bus: any MessageBus
    package var journal: any Journal
    package var checkpoints: CheckpointStore
    package var leases: any KeyValueBucket
    package var registrations: any KeyValueBucket
    package var clock: ClusterClock
    package var metrics: CoordinatorMetrics
    package var logger: Logger
  }

  package enum Failure: Error, Equatable {
    /// Somebody else has it.
    case taken
    /// Worth another try later.
    case unavailable(String)
    /// The store holds what this version cannot read: trying again does not help.
    case unreadable(String)
  }

  let with: Dependencies
  let shard: Int
  let inbox: WorkerInbox
  /// Who lives when the shard is recovered.
  let edges: @Sendable () async -> Set<UInt64>

  /// Epochs are the upper part of the calls' versions, which fit 53 bits.
  private static let epochMax: UInt64 = 1 << 33

  /// - Returns: the term, which the worker has adopted, and the lease's revision.
  func run(lease: Lease?, revision: UInt64) async throws(Failure) -> (ShardTerm, UInt64) {
    let began = with.clock.now()
    // The lease bucket may have been lost and made anew; the journal's epochs only grow.
    let last = try await lastRecord()
    let epoch = max(lease?.epoch ?? 0, last?.epoch ?? 0) &+ 1
    guard epoch <= Self.epochMax else { throw .unreadable("its epoch is out of range") }
    let term = ShardTerm(shard: shard, epoch: epoch)
    let revision = try await takeLease(epoch, expecting: revision)
    inbox.offer(.expect(term))
    do {
      inbox.offer(.subscribed(term, try subscribe(term)))
      var recovered = try await recover(term)
      recovered.afterLoss = lease.map { !$0.released } ?? false
      with.metrics.claims.increment()
      with.metrics.recoveryLatency.record(
        microseconds: (with.clock.now() - began).microseconds)
      inbox.offer(.adopt(recovered))
      return (term, revision)
    } catch {
      inbox.offer(.abandon(term))
      throw error
    }
  }

  private func lastRecord() async throws(Failure) -> JournalRecord? {
    guard let stored = try await reading({ try await with.journal.last(shard: shard) }) else {
      return nil
    }
    return try decode(stored)
  }

  private func decode(_ stored: StoredRecord) throws(Failure) -> JournalRecord {
    do {
      return try ClusterCodec.journalRecord(stored.bytes)
    } catch {
      throw .unreadable("journal record \(stored.sequence): \(error)")
    }
  }

  private func reading<Value>(_ body: () async throws -> Value) async throws(Failure) -> Value {
    do { return try await body() } catch { throw .unavailable("\(error)") }
  }

  // MARK: The lease

  private func takeLease(_ epoch: UInt64, expecting: UInt64) async throws(Failure) -> UInt64 {
    let lease = Lease(
      owner: with.configuration.nodeID, incarnation: with.incarnation, epoch: epoch,
      released: false)
    switch await with.leases.put("\(shard)", ClusterCodec.encode(lease), expecting: expecting) {
    case .appended(let revision): return revision
    case .refused: throw .taken
    case .unknown(let reason):
      let entry = try await reading { try await with.leases.get("\(shard)") }
      guard let entry, let value = entry.value, let found = try? ClusterCodec.lease(value),
        found == lease
      else { throw .unavailable(reason) }
      return entry.revision
    }
  }

  // MARK: The bus

  private func subscribe(_ term: ShardTerm) throws(Failure) -> [any BusSubscription] {
    let inbox = inbox
    let shard = shard
    var made: [any BusSubscription] = []
    do {
      made.append(
        try with.bus.subscribe(with.subjects.commands(shard: shard)) { message in
          inbox.offerCommands(shard: shard, message.bytes)
        })
      made.append(
        try with.bus.subscribe(with.subjects.announceDone(shard: shard)) { message in
          // What cannot be read stands for nothing: the wait for announcements has its deadline.
          guard let done = try? ClusterCodec.announceDone(message.bytes) else { return }
          inbox.offer(.announceDone(shard: shard, epoch: done.epoch, edge: done.edge))
        })
      return made
    } catch {
      for subscription in made { subscription.cancel() }
      throw .unavailable("\(error)")
    }
  }

  // MARK: The store

  private func recover(_ term: ShardTerm) async throws(Failure) -> RecoveredShard {
    for _ in 0..<3 {
      let checkpoint = try await readCheckpoint()
      let recovered = try await replayAndFence(term, checkpoint?.0)
      // A former owner may have written a checkpoint, and purged the journal behind it, while the
      // journal was being read. After the fence nothing more can come to it.
      if try await checkpointRevision() == (checkpoint?.revision ?? 0) { return recovered }
    }
    throw .unavailable("its checkpoints change while it is read")
  }

  private func readCheckpoint() async throws(Failure) -> (Checkpoint, revision: UInt64)? {
    do throws(CheckpointStore.Failure) {
      return try await with.checkpoints.read(shard: shard)
    } catch { throw Self.failure(error) }
  }

  private func checkpointRevision() async throws(Failure) -> UInt64 {
    do throws(CheckpointStore.Failure) {
      return try await with.checkpoints.revision(shard: shard)
    } catch { throw Self.failure(error) }
  }

  private static func failure(_ failure: CheckpointStore.Failure) -> Failure {
    switch failure {
    case .outdated: .taken
    case .unreadable(let what): .unreadable(what)
    case .unavailable(let why): .unavailable(why)
    }
  }

  private func registrations() async throws(Failure) -> [Registration] {
    let entries = try await reading {
      try await with.registrations.entries(matching: "\(shard).>")
    }
    return entries.compactMap { entry in
      guard let value = entry.value else { return nil }
      do {
        return try ClusterCodec.registration(value)
      } catch {
        // One device that cannot be read is no reason to leave all others without a shard.
        with.metrics.registrationsUnreadable.increment()
        with.logger.error(
          "A registration cannot be read: its device is not woken.",
          metadata: .keys([.shard: "\(shard)", .key: "\(entry.key)", .error: "\(error)"]))
        return nil
      }
    }
  }

  private func replayAndFence(
    _ term: ShardTerm, _ checkpoint: Checkpoint?
  ) async throws(Failure) -> RecoveredShard {
    var reader = JournalReader(
      machine: ShardMachine(
        shard: shard, epoch: term.epoch, limits: with.configuration.limits),
      position: checkpoint?.sequence ?? 0)
    reader.machine.restore(
      checkpoint: checkpoint?.entries ?? [], registrations: try await registrations(),
      now: with.clock.now())
    let sequence = try await fence(term, &reader)
    with.metrics.recordsReplayed.increment(by: UInt64(reader.records))
    return RecoveredShard(
      term: term, machine: reader.machine, sequence: sequence, edges: await edges(),
      recordsReplayed: reader.records)
  }

  private struct JournalReader {
    var machine: ShardMachine
    /// Of the last record that was taken in, by replay or with the checkpoint.
    var position: UInt64
    var records = 0
  }

  /// Replays what there is behind the reader's position.
  private func readOn(_ term: ShardTerm, _ reader: inout JournalReader) async throws(Failure) {
    while true {
      let from = reader.position + 1
      guard
        let stored = try await reading({
          try await with.journal.next(shard: shard, from: from)
        })
      else { return }
      let record = try decode(stored)
      if record.epoch > term.epoch { throw .taken }
      reader.machine.replay(record.entries, now: with.clock.now())
      reader.position = stored.sequence
      reader.records += 1
    }
  }

  private static let fenceAttempts = 10

  /// Reads to the journal's end and writes the first record of this epoch behind it: from then on
  /// every append of a former owner is refused.
  private func fence(_ term: ShardTerm, _ reader: inout JournalReader) async throws(Failure)
    -> UInt64
  {
    let writer = with.configuration.nodeID
    for attempt in 0..<Self.fenceAttempts {
      if attempt > 2 { await with.clock.pause(.milliseconds(Int64(20 * attempt))) }
      if Task.isCancelled { throw .unavailable("cancelled") }
      try await readOn(term, &reader)
      // All records may be older than the checkpoint, or there may be none at all.
      let end = try await reading { try await with.journal.last(shard: shard) }
      if let end, end.sequence > reader.position { continue }
      let expecting = end?.sequence ?? 0
      let record = JournalRecord(
        epoch: term.epoch, number: 0, writer: writer, at: with.clock.now(), entries: [])
      let bytes = ClusterCodec.encode(record)
      switch await with.journal.append(shard: shard, expecting: expecting, bytes) {
      case .appended(let sequence): return sequence
      case .refused, .unknown: break
      }
      let last = try await reading { try await with.journal.last(shard: shard) }
      let settlement = Settlement.judge(
        last: last, expecting: expecting, writer: writer, epoch: term.epoch, number: 0)
      if case .ours(let sequence) = settlement { return sequence }
    }
    throw .unavailable("the journal's end keeps moving")
  }
}
