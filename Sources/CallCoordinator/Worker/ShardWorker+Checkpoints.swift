internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import Logging

/// When a shard's checkpoint is taken, and what it means for the journal's room.
extension ShardWorker {
  func wantsCheckpoint(_ shard: HeldShard, now: Timestamp) -> Bool {
    !shard.checkpointWaiters.isEmpty || shard.checkpointDue <= now
  }

  /// A quiet shard is at its last record.
  func snapshotIfAsked(_ shard: HeldShard, now: Timestamp) {
    guard wantsCheckpoint(shard, now: now) else { return }
    if shard.tail == JournalTail() {
      // One that is being written will do.
      guard shard.tailHandedOver == nil else { return }
      let waiters = shard.checkpointWaiters
      shard.checkpointWaiters.removeAll()
      for done in waiters { done(true) }
      return
    }
    handOver(shard.machine.snapshot, shard.pipeline.lastSequence, shard)
  }

  func handOver(_ snapshot: ShardSnapshot, _ sequence: UInt64, _ shard: HeldShard) {
    let waiters = shard.checkpointWaiters
    shard.checkpointWaiters.removeAll()
    // Where two are being written, the later one makes superfluous what both do.
    if let former = shard.tailHandedOver { shard.tail.prepend(former.tail) }
    shard.tailHandedOver = (sequence, shard.tail)
    shard.tail = JournalTail()
    let term = shard.term
    let inbox = inbox
    dependencies.writeCheckpoint(
      CheckpointJob(
        shard: term.shard, epoch: term.epoch, sequence: sequence, snapshot: snapshot,
        isAwaited: !waiters.isEmpty
      ) { ok in
        inbox.offer(.checkpointEnded(term, sequence: sequence, ok: ok))
        for done in waiters { done(ok) }
      })
  }

  /// What could not be cut off counts again, and is tried again after a while.
  func checkpointEnded(_ shard: HeldShard, _ sequence: UInt64, ok: Bool, now: Timestamp) {
    guard let former = shard.tailHandedOver, former.sequence == sequence else { return }
    shard.tailHandedOver = nil
    touch(shard.number)
    if ok {
      shard.keptBytes = former.tail.bytes
      // The next one purges what this one has made superfluous.
      if shard.room(of: dependencies.configuration.journal.bytesPerShard) != .enough {
        shard.tail.needsCheckpoint = true
      }
    } else {
      shard.tail.prepend(former.tail)
      shard.checkpointNotBefore = now + dependencies.configuration.checkpointRetry
    }
    updateRoom(shard)
  }

  func updateRoom(_ shard: HeldShard) {
    let room = shard.room(of: dependencies.configuration.journal.bytesPerShard)
    let former = shard.machine.room
    guard room != former else { return }
    shard.machine.room = room
    dependencies.logger.warning(
      room == .enough
        ? "The shard's journal has room again."
        : "The shard's journal is filling up: calls are refused.",
      metadata: .keys([.shard: "\(shard.number)", .state: "\(room)"]))
  }
}
