internal import Synchronization

/// Jobs of actors that live on one thread: what a `SerialExecutor` on a thread of ours needs.
///
/// Not bounded: there are as many jobs as actors and tasks that live on the thread, and a job that
/// is not run leaves its task waiting for ever. Once the thread has ended, another thread runs what
/// still comes, one job at a time as before.
package final class JobQueue: Sendable {
  /// Whose job it is: an actor's, or that of a task that prefers this thread.
  private enum Entry {
    case actor(UnownedJob)
    case task(UnownedJob, UnownedTaskExecutor)
  }
  private struct State {
    var jobs: [Entry] = []
    /// Somebody is at it, or is about to be.
    var running = false
    var ended = false
  }
  private let state = Mutex(State())
  private let wake: @Sendable () -> Void

  /// - Parameter wake: makes the thread call `run` soon.
  package init(wake: @escaping @Sendable () -> Void) { self.wake = wake }

  package func enqueue(_ job: UnownedJob, of executor: UnownedSerialExecutor) {
    enqueue(.actor(job), executor)
  }

  /// A job of a task executor that shares the thread with the serial one.
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

  /// Runs what is queued, and what that queues, on the calling thread.
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

  /// The thread ends; it has called `run` for the last time.
  package func end(on executor: UnownedSerialExecutor) {
    let rest = state.withLock { state in
      state.ended = true
      return !state.jobs.isEmpty
    }
    if rest { startThread(named: "callmesh-last") { self.run(on: executor) } }
  }
}

/// A thread on which actors live that must not share the cooperative pool's.
public final class ThreadExecutor: SerialExecutor {
  private let signal: ThreadSignal
  private let jobs: JobQueue

  /// - Parameter name: of the thread; 15 bytes at most.
  public init(name: String) {
    let signal = ThreadSignal()
    self.signal = signal
    jobs = JobQueue { signal.signal() }
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
