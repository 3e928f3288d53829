internal import Synchronization

/// A work queue in memory: runs a `WorkQueueMachine` on the bus's thread.
public final class InProcessWorkQueue: WorkQueue {
  /// The queue of a bus. No lock is held while a handler or a completion runs.
  struct Shared: Sendable {
    var lanes: WorkQueueMachine
    var handlers: [Int: WorkHandler] = [:]
  }

  private let core: InProcessCore

  init(_ core: InProcessCore, _ options: WorkQueueOptions) {
    self.core = core
    core.work.withLock { if $0 == nil { $0 = Shared(lanes: WorkQueueMachine(options)) } }
  }

  public func add(
    lane: String, id: String, _ bytes: [UInt8],
    completion: @escaping AppendCompletion
  ) {
    core.write(
      completion, fault: { $0.onAdd?(lane, id) },
      body: { [core] _ in
        guard isLaneName(lane) else { return .unknown("not a lane: '\(lane)'") }
        return core.work.withLock { $0!.lanes.add(lane: lane, id: id, bytes, now: .now) }
      })
  }

  public func consume(
    lane: String, inFlight: Int, handler: @escaping WorkHandler
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
  /// Hands out jobs, on the bus's thread. Returns when to do so again.
  func handOutWork() -> ContinuousClock.Instant? {
    let (handouts, work) = work.withLock { work in
      (work?.lanes.handOut(now: .now) ?? [], work)
    }
    for handout in handouts {
      work?.handlers[handout.taker]?(
        WorkItem(bytes: handout.bytes, attempt: handout.attempt) { [self] settlement in
          // On the bus's thread, which then hands out the next jobs.
          enqueue { [self] in
            self.work.withLock { $0!.lanes.settle(handout, settlement, now: .now) }
          }
        })
    }
    return work?.lanes.nextDeadline
  }
}
