internal import Synchronization

/// A work queue in memory: what `WorkQueueMachine` says, on the bus's thread.
public final class InProcessWorkQueue: WorkQueue {
  typealias Handler = @Sendable (WorkItem) -> Void

  /// The queue of a bus. Lock order: none is held while a handler or a completion runs.
  struct Shared: Sendable {
    var lanes: WorkQueueMachine
    var handlers: [Int: Handler] = [:]
  }

  private let core: InProcessCore

  init(_ core: InProcessCore, _ options: WorkQueueOptions) {
    self.core = core
    core.work.withLock { if $0 == nil { $0 = Shared(lanes: WorkQueueMachine(options)) } }
  }

  public func add(
    lane: String, id: String, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    let taken = core.enqueue { [core] in
      guard isLaneName(lane) else { return completion(.unknown("not a lane: '\(lane)'")) }
      let fault = core.faults.withLock { $0.onAdd }?(lane, id)
      completion(
        InProcessJournal.perform(fault) {
          core.work.withLock { $0!.lanes.add(lane: lane, id: id, bytes, now: core.now) }
        })
    }
    if !taken { completion(.unknown("the bus is closed")) }
  }

  public func take(
    lane: String, inFlight: Int, handler: @escaping @Sendable (WorkItem) -> Void
  ) async throws -> any BusSubscription {
    guard isLaneName(lane) else { throw BusError.failed("not a lane: '\(lane)'") }
    try await core.faults.withLock { $0.onTake }?(lane)
    let taker = try await core.perform { [core] in
      core.work.withLock { work in
        let taker = work!.lanes.addTaker(lane: lane, inFlight: inFlight)
        work!.handlers[taker] = handler
        return taker
      }
    }
    return InProcessSubscription { [core] in
      core.work.withLock { work in
        work!.handlers[taker] = nil
        work!.lanes.removeTaker(taker, lane: lane)
      }
    }
  }

  public func depth(lane: String) async throws -> Int {
    try await core.perform { [core] in core.work.withLock { $0!.lanes.depth(lane: lane) } }
  }
}

extension InProcessCore {
  var now: ContinuousClock.Instant { .now }

  /// Hands out jobs, on the bus's thread. Returns when to do so again.
  func handOutWork() -> ContinuousClock.Instant? {
    let (handouts, handlers, next) = work.withLock { work in
      guard work != nil else {
        return (
          [WorkQueueMachine.Handout](), [Int: InProcessWorkQueue.Handler](),
          nil as ContinuousClock.Instant?
        )
      }
      let handouts = work!.lanes.handOut(now: now)
      return (handouts, handouts.isEmpty ? [:] : work!.handlers, work!.lanes.nextDeadline)
    }
    for handout in handouts {
      handlers[handout.taker]?(
        WorkItem(bytes: handout.bytes, attempt: handout.attempt) { [self] settlement in
          // On the bus's thread, which then hands out what there is room for.
          enqueue { [self] in
            work.withLock { $0!.lanes.settle(handout, settlement, now: now) }
          }
        })
    }
    return next
  }
}
