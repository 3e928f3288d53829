internal import CallBus
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// The event loops of a process that is an edge and a coordinator. Each serves connections and runs a worker, so that a
/// command for a shard of this process reaches its decision, and the decision its devices, on one thread and as values.
/// Only records of journals, and what is for other nodes, go to NATS.
final class SharedLoops: Sendable {
  let group: MultiThreadedEventLoopGroup
  /// One for each event loop.
  let threads: [ActorThread]
  let exchange = LocalExchange()
  private let executors: [GuestExecutor]

  init(count: Int) {
    group = MultiThreadedEventLoopGroup(numberOfThreads: count)
    let loops = Array(group.makeIterator())
    executors = loops.map { loop in GuestExecutor { executor in loop.execute { executor.run() } } }
    threads = zip(loops, executors).map { loop, executor in
      ActorThread(executor: executor, taskExecutor: executor, timers: LoopTimers(loop))
    }
  }

  /// To be called when both roles have ended.
  func shutDown() async {
    try? await group.shutdownGracefully()
    for executor in executors { executor.end() }
  }
}

/// Timers on an event loop.
private final class LoopTimers: Timers {
  private struct Slot {
    var deadline: ContinuousClock.Instant?
    var action: (@Sendable () -> Void)?
  }
  private let slots = Mutex<[Slot]>([])
  private let loop: any EventLoop

  init(_ loop: any EventLoop) { self.loop = loop }

  var now: ContinuousClock.Instant { .now }

  func register(_ action: @escaping @Sendable () -> Void) -> Int {
    slots.withLock { slots in
      slots.append(Slot(action: action))
      return slots.count - 1
    }
  }

  func unregister(_ slot: Int) { slots.withLock { $0[slot] = Slot() } }

  func arm(_ slot: Int, at deadline: ContinuousClock.Instant) {
    slots.withLock { $0[slot].deadline = deadline }
    let wait = max(.zero, deadline - now).components
    let nanoseconds = wait.seconds * 1_000_000_000 + wait.attoseconds / 1_000_000_000
    loop.scheduleTask(in: .nanoseconds(nanoseconds)) { [self] in fire(slot) }
  }

  /// Runs the action if its deadline has come. For a deadline that was replaced by a later one, another task is scheduled.
  private func fire(_ slot: Int) {
    let action = slots.withLock { slots -> (@Sendable () -> Void)? in
      guard let deadline = slots[slot].deadline, deadline <= now else { return nil }
      slots[slot].deadline = nil
      return slots[slot].action
    }
    action?()
  }
}
