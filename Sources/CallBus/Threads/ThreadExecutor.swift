internal import Synchronization

/// A thread for actors that must not run on the cooperative pool.
public final class ThreadExecutor: SerialExecutor {
  private let signal: ThreadSignal
  private let jobs: ExecutorJobQueue

  /// - Parameter name: the thread's; 15 bytes at most.
  public init(name: String) {
    let signal = ThreadSignal()
    self.signal = signal
    jobs = ExecutorJobQueue()
    let jobs = jobs
    startThread(named: name) { [weak self] in
      while let executor = self?.asUnownedSerialExecutor() {
        jobs.run(on: .actors(executor))
        signal.wait(atMost: .seconds(1))
      }
    }
  }

  public func enqueue(_ job: consuming ExecutorJob) {
    let isFirst = jobs.enqueue(UnownedJob(job), of: .actors(asUnownedSerialExecutor()))
    if isFirst { signal.signal() }
  }

  public func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    UnownedSerialExecutor(ordinary: self)
  }
}

/// As what an executor runs its jobs.
package enum JobExecutor: Sendable {
  case actors(UnownedSerialExecutor)
  /// A task that goes on after a wait, or passes from one method of its actor to another, would be enqueued again if one
  /// of the two were not the present one.
  case actorsAndTasks(UnownedSerialExecutor, UnownedTaskExecutor)

  fileprivate func run(_ job: UnownedJob) {
    switch self {
    case .actors(let executor): job.runSynchronously(on: executor)
    case .actorsAndTasks(let executor, let taskExecutor):
      job.runSynchronously(isolatedTo: executor, taskExecutor: taskExecutor)
    }
  }
}

/// The jobs of a `SerialExecutor` that runs on a thread of its own.
///
/// Unbounded: there are at most as many jobs as actors and tasks on the thread, and a dropped job would suspend its
/// task for ever. After the thread has ended, further jobs run on a new thread, still one at a time.
package final class ExecutorJobQueue: Sendable {
  private struct State {
    var jobs: [UnownedJob] = []
    /// A thread runs jobs, or is about to.
    var running = false
    var ended = false
  }
  private let state = Mutex(State())

  package init() {}

  /// - Returns: whether the thread must be woken, to call `run`.
  package func enqueue(_ job: UnownedJob, of executor: JobExecutor) -> Bool {
    let (needsRun, ended) = state.withLock { state in
      state.jobs.append(job)
      return (!state.running && state.jobs.count == 1, state.ended)
    }
    guard needsRun, ended else { return needsRun }
    startThread(named: "callmesh-last") { self.run(on: executor) }
    return false
  }

  package var isEmpty: Bool { state.withLock { $0.jobs.isEmpty } }

  /// Runs all jobs, including those that they enqueue, on the calling thread.
  package func run(on executor: JobExecutor) {
    var jobs: [UnownedJob] = []
    while true {
      jobs.removeAll(keepingCapacity: true)
      state.withLock { state in
        swap(&jobs, &state.jobs)
        state.running = !jobs.isEmpty
      }
      if jobs.isEmpty { return }
      for job in jobs { executor.run(job) }
    }
  }

  /// Called when the thread ends, after its last `run`.
  package func end(on executor: JobExecutor) {
    let rest = state.withLock { state in
      state.ended = true
      return !state.jobs.isEmpty
    }
    if rest { startThread(named: "callmesh-last") { self.run(on: executor) } }
  }
}
