internal import CallCore
internal import CallWire

extension FuzzTarget {
  /// A shard that hears whatever an edge could say, behind a journal that may have gone bad. What it
  /// decides can be kept, and a new owner lives on it.
  static let shard = FuzzTarget("shard", bytesMax: 16_384) { bytes in
    var now = Timestamp(microseconds: FuzzKeys.now)
    var machine = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    var outcome = Outcome()
    if let record = try? ClusterCodec.journalRecord(bytes) {
      machine.replay(record.entries, now: now)
    }
    machine.begin(now: now, into: &outcome)
    if let batch = try? ClusterCodec.commandBatch(bytes) {
      for command in batch.commands {
        machine.handle(command, now: now, into: &outcome)
        now = now + .milliseconds(700)
        machine.fire(now: now, into: &outcome)
      }
      machine.edgeLost(batch.edge, now: now, into: &outcome)
    }
    now = now + .seconds(600)
    machine.fire(now: now, into: &outcome)

    let record = JournalRecord(
      epoch: 1, number: 1, writer: "fuzz", at: now, entries: outcome.entries)
    let kept = try ClusterCodec.journalRecord(ClusterCodec.encode(record))
    try promise(kept == record, "\(record) is kept as \(kept)")
    var heir = ShardMachine(shard: 0, epoch: 2, limits: CallLimits())
    heir.replay(kept.entries, now: now)
    heir.begin(now: now, afterLoss: true, into: &outcome)
    heir.fire(now: now + .seconds(600), into: &outcome)
  }
}
