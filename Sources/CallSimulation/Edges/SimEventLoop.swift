package import CallCore
package import Dispatch
package import NIOCore

/// The NIO event loop of one process of the world. It freezes and dies with the process.
package final class SimEventLoop: EventLoop, @unchecked Sendable {
  package let node: SimNode
  private unowned let world: SimWorld
  private var ready: [() -> Void] = []
  private var isScheduled = false
  /// Fails the promises of the tasks that have not run.
  private var waiting: [Int: () -> Void] = [:]
  private var lastTask = 0

  package init(_ node: SimNode) {
    self.node = node
    world = node.world
    world.onEnd { [weak self] in self?.shutDown() }
  }

  /// As NIO's loops do. What waits for a task, or was to run, retains the loop, also that of a process that died.
  private func shutDown() {
    let waiting = waiting
    self.waiting.removeAll()
    for fail in waiting.values { fail() }
    ready.removeAll()
  }

  package func post(_ body: @escaping () -> Void) {
    guard node.state != .dead else { return ready.removeAll() }
    ready.append(body)
    guard !isScheduled else { return }
    isScheduled = true
    world.schedule(after: Span(microseconds: 0)) { [self] in
      node.arrive { [self] in drain() }
    }
  }

  /// Runs `body` on this loop after a while, or as soon after it as the process runs.
  package func post(after span: Span, _ body: @escaping () -> Void) {
    world.schedule(after: span) { [self] in node.arrive(body) }
  }

  private func drain() {
    isScheduled = false
    let batch = ready
    ready.removeAll(keepingCapacity: true)
    for body in batch where node.state != .dead { body() }
  }

  // MARK: EventLoop

  package var inEventLoop: Bool { true }
  package var now: NIODeadline {
    .uptimeNanoseconds(UInt64(world.now.microseconds) * 1000)
  }

  package func execute(_ task: @escaping @Sendable () -> Void) { post(task) }
  package func _executeIsolatedUnsafeUnchecked(_ task: @escaping () -> Void) { post(task) }

  package func submit<T>(_ task: @escaping @Sendable () throws -> T) -> EventLoopFuture<T> {
    scheduleTask(in: .zero, task).futureResult
  }

  package func scheduleTask<T>(
    deadline: NIODeadline, _ task: @escaping @Sendable () throws -> T
  ) -> Scheduled<T> {
    scheduleTask(in: deadline - now, task)
  }

  package func scheduleTask<T>(
    in delay: TimeAmount, _ task: @escaping @Sendable () throws -> T
  ) -> Scheduled<T> {
    let promise = makePromise(of: T.self)
    let flag = CancellationFlag()
    lastTask += 1
    let number = lastTask
    waiting[number] = { promise.fail(EventLoopError.shutdown) }
    post(after: Span(microseconds: max(0, delay.nanoseconds / 1000))) { [self] in
      waiting[number] = nil
      guard !flag.isCancelled else { return }
      do {
        promise.assumeIsolated().succeed(try task())
      } catch {
        promise.fail(error)
      }
    }
    return Scheduled(promise: promise, cancellationTask: { flag.isCancelled = true })
  }

  package func preconditionInEventLoop(file: StaticString, line: UInt) {}
  package func preconditionNotInEventLoop(file: StaticString, line: UInt) {}
  package func _preconditionSafeToWait(file: StaticString, line: UInt) {}

  package func shutdownGracefully(
    queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void
  ) {
    queue.async { callback(nil) }
  }
}

private final class CancellationFlag: @unchecked Sendable {
  var isCancelled = false
}
