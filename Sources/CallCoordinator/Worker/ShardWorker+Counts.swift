internal import CallCore
internal import CallTelemetry
internal import Logging

/// What a worker counts, measures and logs of what it commits.
extension ShardWorker {
  /// Counts and logs what the journal has now.
  func note(_ flight: HeldShard.Flight, _ shard: HeldShard) {
    dependencies.logger.logFacts(flight.entries, shard: shard.number, epoch: shard.term.epoch)
    for (call, milestone) in flight.milestones {
      dependencies.metrics.calls.count(milestone)
      if case .placed(let receivedAt?) = milestone { placedCalls[call] = receivedAt }
    }
  }

  /// When an edge received the place of an invite's call; nil for other deliveries, and for calls that the
  /// present commit did not place.
  func ringsSince(_ delivery: Delivery) -> Timestamp? {
    guard !placedCalls.isEmpty, case .invite = delivery.event else { return nil }
    return placedCalls[delivery.call]
  }

  func count(_ shard: HeldShard) {
    let live = LiveCalls(shard.machine.counts)
    dependencies.metrics.calls.live(live, was: shard.countedCalls)
    shard.countedCalls = live
    let load = ShardLoad(shard)
    dependencies.metrics.load(load, was: shard.countedLoad)
    shard.countedLoad = load
  }

  /// Counts what the worker itself waits for.
  func countWaiting() {
    let now = (pushes: pushes.count, questions: exchanges.count)
    guard now != countedWaiting else { return }
    dependencies.metrics.pushesWaiting.add(Int64(now.pushes - countedWaiting.pushes))
    dependencies.metrics.tokenQuestionsWaiting.add(
      Int64(now.questions - countedWaiting.questions))
    countedWaiting = now
  }
}

/// What waits in a shard.
struct ShardLoad: Equatable {
  /// Decided, and not in the journal.
  var effects = 0
  var bytes = 0
  /// Until it is recovered.
  var commands = 0
  /// For the store.
  var registrationWrites = 0

  init() {}

  init(_ shard: HeldShard) {
    effects = shard.pipeline.waiting
    bytes = shard.pipeline.waitingBytes
    commands = shard.queue.count
    registrationWrites = shard.storesOutstanding
  }
}
