package import CallCore
package import CallTelemetry
internal import Logging

/// The counts and logs of a worker, and the data that it shows operators.
extension ShardWorker {
  /// Counts and logs a record that the journal has.
  func note(_ flight: HeldShard.Flight, _ shard: HeldShard) {
    logger.logFacts(flight.entries, shard: shard.number, epoch: shard.term.epoch)
    for (call, milestone) in flight.milestones {
      metrics.calls.count(milestone)
      if case .placed(let receivedAt?) = milestone { placedCalls[call] = receivedAt }
    }
  }

  /// When an edge received the `place` of an invite's call; nil for other deliveries, and for calls that the present
  /// commit did not place.
  func ringsSince(_ delivery: Delivery) -> Timestamp? {
    guard !placedCalls.isEmpty, case .invite = delivery.event else { return nil }
    return placedCalls[delivery.call]
  }

  func count(_ shard: HeldShard) {
    let load = ShardLoad(shard)
    metrics.load(load, was: shard.countedLoad)
    shard.countedLoad = load
    let counts = shard.machine.counts
    if counts.recordsLostTotal > shard.countedRecordsLost {
      metrics.recordsLost.increment(by: counts.recordsLostTotal - shard.countedRecordsLost)
      shard.countedRecordsLost = counts.recordsLostTotal
    }
    if counts.historiesLostTotal > shard.countedHistoriesLost {
      metrics.historiesLost.increment(by: counts.historiesLostTotal - shard.countedHistoriesLost)
      shard.countedHistoriesLost = counts.historiesLostTotal
    }
  }

  /// Updates the gauges of what the worker itself waits for.
  func countWaiting() {
    let now = WaitingCounts(
      pushes: pushes.count + unread.count, questions: exchanges.count, records: records.count,
      events: appEvents.count, histories: histories.count, historyReads: historyReads.count)
    guard now != countedWaiting else { return }
    metrics.pushesWaiting.add(Int64(now.pushes - countedWaiting.pushes))
    metrics.tokenQuestionsWaiting.add(Int64(now.questions - countedWaiting.questions))
    metrics.recordsWaiting.add(Int64(now.records - countedWaiting.records))
    metrics.historyCallsWaiting.add(Int64(now.histories - countedWaiting.histories))
    metrics.historyReadsWaiting.add(Int64(now.historyReads - countedWaiting.historyReads))
    metrics.eventsWaiting.add(Int64(now.events - countedWaiting.events))
    countedWaiting = now
  }

  // MARK: For operators

  package func status() -> [ShardStatus] {
    let inRecovery = recovering.values.map {
      ShardStatus(shard: $0.term.shard, state: .recovering, epoch: $0.term.epoch)
    }
    return inRecovery
      + held.compactMap(\.self).map {
        ShardStatus(
          shard: $0.number, state: $0.shown, epoch: $0.term.epoch,
          sequence: $0.pipeline.lastSequence, counts: $0.machine.counts,
          deliveriesTotal: $0.deliveriesTotal)
      }
  }

  /// - Parameter only: the shard to look into; nil: all.
  package func inspect(call: CallID, in only: Int? = nil) -> (shard: Int, CallInspection)? {
    for case let shard? in held where only ?? shard.number == shard.number {
      if let found = shard.machine.inspect(call: call) { return (shard.number, found) }
    }
    return nil
  }

  package func inspect(user: UserKey, shard: Int) -> UserInspection? {
    held[shard]?.machine.inspect(user: user)
  }

  package var heldShards: [Int] { held.compactMap { $0?.number } }

  /// A shard's present users and calls; nil if it is not held, or its sessions are not known yet.
  package func directory(of shard: Int) -> ShardDirectory? {
    guard let shard = held[shard] else { return nil }
    if case .announcing = shard.phase { return nil }
    return shard.machine.directory
  }

  package func holds(_ shard: Int) -> Bool { held[shard] != nil }
}

/// How many items of each kind a worker waits for.
struct WaitingCounts: Equatable {
  var pushes = 0
  var questions = 0
  var records = 0
  var events = 0
  var histories = 0
  var historyReads = 0
}

/// A shard's shares of the gauges.
struct ShardLoad: Equatable {
  /// Waiting for the journal.
  var effects = 0
  var bytes = 0
  /// Waiting until the shard serves.
  var commands = 0
  /// Waiting for the store.
  var registrationWrites = 0
  /// Ended calls that are kept because something of them is not stored.
  var unrecorded = 0
  /// Live calls, by phase.
  var placed = 0
  var ringing = 0
  var answered = 0

  init() {}

  init(_ shard: HeldShard) {
    effects = shard.pipeline.waiting
    bytes = shard.pipeline.waitingBytes
    commands = shard.queue.count
    registrationWrites = shard.storesOutstanding
    unrecorded = shard.machine.callsUnrecorded
    let counts = shard.machine.counts
    placed = counts.placed
    ringing = counts.ringing
    answered = counts.answered
  }
}
