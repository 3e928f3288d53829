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

/// Runs actors on a thread that also does other work and calls `run` in between.
package final class GuestExecutor: SerialExecutor {
  private let jobs: ExecutorJobQueue

  /// - Parameter wake: makes the thread call `run`.
  package init(wake: @escaping @Sendable () -> Void) { jobs = ExecutorJobQueue(wake: wake) }

  package func enqueue(_ job: consuming ExecutorJob) {
    jobs.enqueue(UnownedJob(job), of: asUnownedSerialExecutor())
  }

  package var isEmpty: Bool { jobs.isEmpty }

  /// Runs what is queued, on the calling thread.
  package func run() { jobs.run(on: asUnownedSerialExecutor()) }

  /// To be called when the thread ends.
  package func end() { jobs.end(on: asUnownedSerialExecutor()) }

  package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    UnownedSerialExecutor(ordinary: self)
  }

  /// For the tasks of actors on this executor.
  package var taskExecutor: any TaskExecutor { GuestTaskExecutor(self) }

  fileprivate func enqueue(_ job: UnownedJob, of taskExecutor: GuestTaskExecutor) {
    jobs.enqueue(
      job, of: taskExecutor.asUnownedTaskExecutor(), beside: asUnownedSerialExecutor())
  }
}

private final class GuestTaskExecutor: TaskExecutor {
  private let executor: GuestExecutor

  init(_ executor: GuestExecutor) { self.executor = executor }

  func enqueue(_ job: consuming ExecutorJob) {
    executor.enqueue(UnownedJob(job), of: self)
  }
}
