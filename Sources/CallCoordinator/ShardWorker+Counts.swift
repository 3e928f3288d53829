internal import CallCore
internal import CallTelemetry
internal import Logging

/// What a worker counts, measures and logs of what it commits.
extension ShardWorker {
  /// Counts and logs what the journal has now.
  func note(_ flight: HeldShard.Flight, _ shard: Int) {
    with.logger.trail(flight.entries, shard: shard, epoch: held[shard]!.term.epoch)
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

  func countCalls(_ shard: Int) {
    guard let counts = held[shard]?.machine.counts else { return }
    let live = LiveCalls(counts)
    with.metrics.calls.live(live, was: held[shard]!.countedCalls)
    held[shard]!.countedCalls = live
  }

  func countHeldBack(_ shard: Int) {
    guard let waiting = held[shard]?.pipeline.waiting else { return }
    let change = waiting - held[shard]!.countedWaiting
    guard change != 0 else { return }
    held[shard]!.countedWaiting = waiting
    with.metrics.heldBack.add(Int64(change))
  }
}
