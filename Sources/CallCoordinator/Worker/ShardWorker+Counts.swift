internal import CallCore
internal import CallTelemetry
internal import Logging

/// What a worker counts, measures and logs of what it commits.
extension ShardWorker {
  /// Counts and logs what the journal has now.
  func note(_ flight: HeldShard.Flight, _ shard: HeldShard) {
    with.logger.trail(flight.entries, shard: shard.number, epoch: shard.term.epoch)
    for (call, milestone) in flight.milestones {
      with.metrics.calls.count(milestone)
      if case .placed(let receivedAt?) = milestone { placing[call] = receivedAt }
    }
  }

  /// When an edge received the place of an invite's call; nil for other deliveries, and for calls that the
  /// present commit did not place.
  func ringsSince(_ delivery: Delivery) -> Timestamp? {
    guard !placing.isEmpty, case .invite = delivery.event else { return nil }
    return placing[delivery.call]
  }

  func countCalls(_ shard: HeldShard) {
    let live = LiveCalls(shard.machine.counts)
    with.metrics.calls.live(live, was: shard.countedCalls)
    shard.countedCalls = live
  }

  func countHeldBack(_ shard: HeldShard) {
    let waiting = shard.pipeline.waiting
    let change = waiting - shard.countedWaiting
    guard change != 0 else { return }
    shard.countedWaiting = waiting
    with.metrics.heldBack.add(Int64(change))
  }
}
