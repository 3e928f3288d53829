internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import Logging

/// When a shard's checkpoint is taken, and how full its journal is.
extension ShardWorker {
  func wantsCheckpoint(_ shard: HeldShard, now: Timestamp) -> Bool {
    !shard.checkpointWaiters.isEmpty || shard.checkpointDue <= now
  }

  /// Takes a checkpoint of a quiet shard, whose state is that of its last record.
  func snapshotIfAsked(_ shard: HeldShard, now: Timestamp) {
    guard wantsCheckpoint(shard, now: now) else { return }
    if shard.tail == JournalTail() {
      // A checkpoint that is being written suffices.
      if shard.tailHandedOver == nil { for done in shard.takeCheckpointWaiters() { done(true) } }
      return
    }
    handOver(shard.machine.snapshot, shard.pipeline.lastSequence, shard)
  }

  func handOver(_ snapshot: ShardSnapshot, _ sequence: UInt64, _ shard: HeldShard) {
    let waiters = shard.takeCheckpointWaiters()
    // If two are being written, the later one replaces the tails of both.
    if let former = shard.tailHandedOver { shard.tail.prepend(former.tail) }
    shard.tailHandedOver = (sequence, shard.tail)
    shard.tail = JournalTail()
    let term = shard.term
    let inbox = inbox
    writeCheckpoint(
      CheckpointJob(
        shard: term.shard, epoch: term.epoch, sequence: sequence, snapshot: snapshot,
        isAwaited: !waiters.isEmpty
      ) { ok in
        inbox.offer(.checkpointEnded(term, sequence: sequence, ok: ok))
        for done in waiters { done(ok) }
      })
  }

  /// If the checkpoint failed, its tail counts again, and the next attempt waits for `checkpointRetry`.
  func checkpointEnded(_ shard: HeldShard, _ sequence: UInt64, ok: Bool, now: Timestamp) {
    guard let former = shard.tailHandedOver, former.sequence == sequence else { return }
    shard.tailHandedOver = nil
    touch(shard.number)
    if ok {
      shard.keptBytes = former.tail.bytes
      // The next checkpoint purges what this one replaced.
      if shard.room(of: configuration.journal.bytesPerShard) != .enough {
        shard.tail.needsCheckpoint = true
      }
    } else {
      shard.tail.prepend(former.tail)
      shard.checkpointNotBefore = now + configuration.checkpointRetry
    }
    updateRoom(shard)
  }

  func updateRoom(_ shard: HeldShard) {
    let room = shard.room(of: configuration.journal.bytesPerShard)
    guard room != shard.machine.room else { return }
    shard.machine.room = room
    logger.warning(
      room == .enough
        ? "The shard's journal has room again."
        : "The shard's journal is filling up: calls are refused.",
      metadata: .keys([.shard: "\(shard.number)", .state: "\(room)"]))
  }
}
