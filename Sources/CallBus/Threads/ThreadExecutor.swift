internal import Synchronization

/// A thread for actors that must not run on the cooperative pool.
public final class ThreadExecutor: SerialExecutor {
  private let signal: ThreadSignal
  private let jobs: ExecutorJobQueue

  /// - Parameter name: the thread's; 15 bytes at most.
  public init(name: String) {
    let signal = ThreadSignal()
    self.signal = signal
    jobs = ExecutorJobQueue { signal.signal() }
    let jobs = jobs
    startThread(named: name) { [weak self] in
      while let executor = self?.asUnownedSerialExecutor() {
        jobs.run(on: executor)
        signal.wait(atMost: .seconds(1))
      }
    }
  }

  public func enqueue(_ job: consuming ExecutorJob) {
    jobs.enqueue(UnownedJob(job), of: asUnownedSerialExecutor())
  }

  public func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    UnownedSerialExecutor(ordinary: self)
  }
}

/// The jobs of a `SerialExecutor` that runs on a thread of its own.
///
/// Unbounded: there are at most as many jobs as actors and tasks on the thread, and a dropped job would suspend its
/// task for ever. After the thread has ended, further jobs run on a new thread, still one at a time.
package final class ExecutorJobQueue: Sendable {
  /// A job of an actor, or of a task that prefers this thread.
  private enum Entry {
    case actor(UnownedJob)
    case task(UnownedJob, UnownedTaskExecutor)
  }
  private struct State {
    var jobs: [Entry] = []
    /// A thread runs jobs, or is about to.
    var running = false
    var ended = false
  }
  private let state = Mutex(State())
  private let wake: @Sendable () -> Void

  /// - Parameter wake: makes the thread call `run`.
  package init(wake: @escaping @Sendable () -> Void) { self.wake = wake }

  package func enqueue(_ job: UnownedJob, of executor: UnownedSerialExecutor) {
    enqueue(.actor(job), executor)
  }

  /// Enqueues a job of the task executor that shares the thread with the serial executor.
  package func enqueue(
    _ job: UnownedJob, of taskExecutor: UnownedTaskExecutor, beside executor: UnownedSerialExecutor
  ) {
    enqueue(.task(job, taskExecutor), executor)
  }

  private func enqueue(_ entry: Entry, _ executor: UnownedSerialExecutor) {
    let (needsRun, ended) = state.withLock { state in
      state.jobs.append(entry)
      return (!state.running && state.jobs.count == 1, state.ended)
    }
    guard needsRun else { return }
    if ended {
      startThread(named: "callmesh-last") { self.run(on: executor) }
    } else {
      wake()
    }
  }

  package var isEmpty: Bool { state.withLock { $0.jobs.isEmpty } }

  /// Runs all jobs, including those that they enqueue, on the calling thread.
  package func run(on executor: UnownedSerialExecutor) {
    var jobs: [Entry] = []
    while true {
      jobs.removeAll(keepingCapacity: true)
      state.withLock { state in
        swap(&jobs, &state.jobs)
        state.running = !jobs.isEmpty
      }
      if jobs.isEmpty { return }
      for entry in jobs {
        switch entry {
        case .actor(let job): job.runSynchronously(on: executor)
        case .task(let job, let taskExecutor): job.runSynchronously(on: taskExecutor)
        }
      }
    }
  }

  /// Called when the thread ends, after its last `run`.
  package func end(on executor: UnownedSerialExecutor) {
    let rest = state.withLock { state in
      state.ended = true
      return !state.jobs.isEmpty
    }
    if rest { startThread(named: "callmesh-last") { self.run(on: executor) } }
  }
}
