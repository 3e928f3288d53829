internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Replays a shard, and fences its journal.
extension ShardClaim {
  /// The data that was read before this node had the lease. It is verified later: the append of the fence confirms the
  /// journal's end, and the checkpoint's revision is compared.
  struct ReadAhead {
    var end: StoredRecord?
    var checkpoint: Result<(Checkpoint, revision: UInt64)?, Failure>
    /// nil if they were not read, or if the read failed.
    var registrations: StoredRegistrations?
  }

  func recover(
    _ term: ShardTerm, _ accepted: UInt64, _ ahead: ReadAhead
  ) async throws(Failure) -> RecoveredShard {
    var found = ahead.checkpoint
    var end: StoredRecord?? = ahead.end
    for _ in 0..<3 {
      let checkpoint = try found.get()
      if let epoch = checkpoint?.0.epoch, epoch > term.epoch { throw .taken }
      do throws(Failure) {
        let (recovered, revision) = try await replayAndFence(
          term, checkpoint?.0, ahead.registrations, accepted, end)
        // A former owner may have written a checkpoint, and purged the journal, while it was being read.
        if revision == (checkpoint?.revision ?? 0) { return recovered }
      } catch {
        // A journal that is purged behind a newer checkpoint while it is read seems to lack records.
        guard case .unreadable = error,
          try await checkpointRevision() != (checkpoint?.revision ?? 0)
        else { throw error }
      }
      found = await result { () async throws(Failure) in try await checkpointNow() }
      end = nil
    }
    throw .unavailable("its checkpoints change while it is read")
  }

  private func replayAndFence(
    _ term: ShardTerm, _ checkpoint: Checkpoint?,
    _ registrations: StoredRegistrations?, _ accepted: UInt64, _ end: StoredRecord??
  ) async throws(Failure) -> (RecoveredShard, checkpoint: UInt64) {
    var reader = JournalReader(
      machine: ShardMachine(
        shard: shard, epoch: term.epoch, limits: dependencies.configuration.limits),
      chain: JournalChain(
        position: checkpoint?.sequence ?? 0, end: checkpoint?.sequence ?? 0),
      accepted: accepted)
    reader.machine.replay(checkpoint?.entries ?? [], now: dependencies.clock.now())
    let (sequence, revision) = try await fence(term, &reader, end)
    // A former owner may have stored registrations until it was fenced; one that parted had stored all of its own.
    let hasParted = reader.former?.released ?? false
    let stored =
      if hasParted, let registrations { registrations } else { try await self.registrations() }
    reader.machine.restore(stored.all)
    reader.machine.restore(rules: stored.rules)
    dependencies.metrics.recordsReplayed.increment(by: UInt64(reader.tail.records))
    if !reader.losses.isEmpty {
      dependencies.metrics.recordsGivenUp.increment(by: UInt64(reader.losses.count))
      dependencies.logger.error(
        "Records were given up, as an operator allowed: calls in them are lost.",
        metadata: .keys([
          .shard: "\(shard)", .sequence: "\(accepted)", .reason: "\(reader.losses[0])",
          .count: "\(reader.losses.count)",
        ]))
    }
    var recovered = RecoveredShard(
      term: term, machine: reader.machine, sequence: sequence, edges: await edges(),
      tail: reader.tail)
    recovered.journalEnd = max(sequence, reader.chain.end)
    recovered.registrationRevisions = stored.revisions
    // A checkpoint keeps later owners from meeting the lost records again.
    recovered.tail.needsCheckpoint = !reader.losses.isEmpty
    recovered.lostSince = lostSince
    recovered.releasedAt = reader.former.flatMap { $0.released ? $0.at : nil }
    return (recovered, revision)
  }

  private struct JournalReader {
    var machine: ShardMachine
    /// Begins at the checkpoint.
    var chain: JournalChain
    /// The sequence up to which losses are accepted.
    var accepted: UInt64
    /// The accepted losses.
    var losses: [Unreadable] = []
    /// The replayed part of the journal.
    var tail = JournalTail()
    /// The last record that counts.
    var last: JournalRecord?
    /// The last record of an earlier owner.
    var former: JournalRecord?

    /// Notes a loss.
    /// - Throws: `Failure.unreadable`, unless it is accepted.
    mutating func miss(_ what: Unreadable, at sequence: UInt64) throws(Failure) {
      guard sequence <= accepted else { throw .unreadable(what) }
      losses.append(what)
    }
  }

  private static let recordsAtOnce = 64

  /// Replays the records behind the reader's position, up to the known end of the journal, since a read beyond the end
  /// is a wasted request.
  private func readOn(
    _ term: ShardTerm, _ reader: inout JournalReader, to end: StoredRecord?
  ) async throws(Failure) {
    guard let end else { return }
    while reader.chain.end < end.sequence {
      let missing = end.sequence - reader.chain.end - 1
      // At a hand-over the last record is often the only one.
      if missing == 0 { return try replay(end, term, &reader) }
      let from = reader.chain.end + 1
      let limit = Int(min(UInt64(Self.recordsAtOnce), missing))
      let stored = try await reading {
        try await dependencies.journal.records(shard: shard, from: from, limit: limit)
      }
      // The replica lags.
      if stored.isEmpty { return }
      for record in stored { try replay(record, term, &reader) }
    }
  }

  private func replay(
    _ stored: StoredRecord, _ term: ShardTerm, _ reader: inout JournalReader
  ) throws(Failure) {
    let former = reader.chain.end
    let record: JournalRecord
    do throws(WireError) {
      record = try ClusterCodec.journalRecord(stored.bytes)
    } catch {
      let what = Unreadable(.journal, sequence: stored.sequence, "\(error)")
      try reader.miss(what, at: stored.sequence)
      // The next record follows it.
      return reader.chain.skip(stored.sequence)
    }
    switch reader.chain.append(stored.sequence, previous: record.previous) {
    case .counts: break
    case .void: return dependencies.metrics.recordsVoid.increment()
    case .gap:
      let previous = record.previous ?? 0
      let reason = "it follows record \(previous), but what is before it ends at \(former)"
      try reader.miss(Unreadable(.journal, sequence: stored.sequence, reason), at: stored.sequence)
      reader.chain.skip(stored.sequence)
    }
    try checkOwner(term, record)
    let now = dependencies.clock.now()
    reader.machine.replay(record.entries, now: now)
    // By this node's clock, no record is from the future.
    reader.tail.add(bytes: stored.bytes.count, at: min(record.at, now))
    reader.last = record
    if record.epoch < term.epoch { reader.former = record }
  }

  /// - Throws: `Failure.taken`, if another owner's record stands where this term would begin. Only the journal's end
  ///   may show it: a later owner's checkpoint covers what stands before.
  private func checkOwner(_ term: ShardTerm, _ record: JournalRecord?) throws(Failure) {
    guard let record else { return }
    if record.epoch > term.epoch { throw .taken }
    if record.epoch == term.epoch, record.writer != dependencies.configuration.writer {
      throw .taken
    }
  }

  /// Checks that the journal reaches as far as the checkpoint. A store that lost the end would give the same sequences
  /// to new records, and later owners would ignore those.
  private func checkEnd(_ end: StoredRecord?, _ reader: inout JournalReader) throws(Failure) {
    let sequence = end?.sequence ?? 0
    if sequence < reader.chain.end {
      let reason = "the journal ends at record \(sequence), before its checkpoint"
      try reader.miss(
        Unreadable(.journal, sequence: reader.chain.end, reason), at: reader.chain.end)
      reader.chain.skip(sequence)
    }
    if let end, reader.tail.records == 0 {
      reader.last = try? ClusterCodec.journalRecord(end.bytes)
      reader.former = reader.last
    }
  }

  private static let fenceAttempts = 10

  /// Reads to the journal's end and appends the first record of this epoch: from then on every append of a former owner
  /// is refused.
  /// - Parameter known: the journal's end as it was read before; if it has moved since, the append is refused, and it
  ///   is read again.
  /// - Returns: the record's sequence, and the checkpoint's revision after everything before the record was read. A
  ///   later purge does no harm.
  private func fence(
    _ term: ShardTerm, _ reader: inout JournalReader, _ known: StoredRecord??
  ) async throws(Failure) -> (sequence: UInt64, checkpoint: UInt64) {
    let writer = dependencies.configuration.writer
    var known = known
    for attempt in 0..<Self.fenceAttempts {
      if attempt > 2 { await dependencies.clock.sleep(for: .milliseconds(Int64(20 * attempt))) }
      if Task.isCancelled { throw .unavailable("cancelled") }
      // All records may be older than the checkpoint, or there may be none.
      let end: StoredRecord?
      if let read = known.take() { end = read } else { end = try await journalEnd() }
      try await readOn(term, &reader, to: end)
      if let end, end.sequence > reader.chain.end { continue }
      // A lagging replica shows an older end: the shard is stopped only if that repeats.
      if end?.sequence ?? 0 < reader.chain.end, attempt < Self.fenceAttempts / 2 { continue }
      try checkEnd(end, &reader)
      try checkOwner(term, reader.last)
      async let checkpoint = result { () async throws(Failure) in try await checkpointRevision() }
      // An earlier attempt without an answer was stored.
      if let fence = reader.last, fence.epoch == term.epoch, fence.writer == writer {
        return (reader.chain.position, try await checkpoint.get())
      }
      let expecting = end?.sequence ?? 0
      let record = JournalRecord(
        epoch: term.epoch, number: 0, writer: writer, at: dependencies.clock.now(), entries: [],
        previous: reader.chain.position)
      let bytes = ClusterCodec.encode(record)
      switch await dependencies.journal.append(shard: shard, expecting: expecting, bytes) {
      case .appended(let sequence) where dependencies.journal.isNext(sequence, after: expecting):
        return (sequence, try await checkpoint.get())
      // Another record may precede it and count in its place: the next read shows that.
      case .appended, .refused, .unknown: break
      }
    }
    throw .unavailable("the journal's end keeps moving")
  }
}
