/// A thread that actors can share with what they serve, such as a bus's connection or an event loop.
public struct ActorThread: Sendable {
  /// Runs the actor's jobs. They block whatever else the thread does.
  public var executor: any SerialExecutor
  /// The executor that the actor's tasks should prefer. Otherwise a continuation resumes on the cooperative pool first, and
  /// the switch from there costs two wake-ups.
  public var taskExecutor: any TaskExecutor
  /// Timers that fire on the thread.
  public var timers: any Timers

  public init(
    executor: any SerialExecutor, taskExecutor: any TaskExecutor, timers: any Timers
  ) {
    self.executor = executor
    self.taskExecutor = taskExecutor
    self.timers = timers
  }
}

/// Runs actors, and their tasks, on a thread that also does other work and calls `run` in between.
/// It is both kinds of executor.
package final class GuestExecutor: SerialExecutor, TaskExecutor {
  private let jobs = ExecutorJobQueue()
  private let wake: @Sendable (GuestExecutor) -> Void

  /// - Parameter wake: makes the thread call `run` of the executor that it is passed.
  package init(wake: @escaping @Sendable (GuestExecutor) -> Void) { self.wake = wake }

  package func enqueue(_ job: consuming ExecutorJob) {
    if jobs.enqueue(UnownedJob(job), of: both) { wake(self) }
  }

  package var isEmpty: Bool { jobs.isEmpty }

  /// Runs what is queued, on the calling thread.
  package func run() { jobs.run(on: both) }

  /// To be called when the thread ends.
  package func end() { jobs.end(on: both) }

  private var both: JobExecutor {
    .actorsAndTasks(asUnownedSerialExecutor(), asUnownedTaskExecutor())
  }

  package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    UnownedSerialExecutor(ordinary: self)
  }

  package func asUnownedTaskExecutor() -> UnownedTaskExecutor {
    UnownedTaskExecutor(ordinary: self)
  }
}
