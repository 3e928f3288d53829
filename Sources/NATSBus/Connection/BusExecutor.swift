internal import CallBus

/// Runs actors on the connection's thread, after it has read and before it writes: an actor that answers messages
/// wakes no other thread.
final class BusExecutor: SerialExecutor {
  let jobs: ExecutorJobQueue

  init(_ outbox: Outbox) {
    jobs = ExecutorJobQueue { outbox.wakeIfAsleep() }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    unsafe jobs.enqueue(UnownedJob(job), of: asUnownedSerialExecutor())
  }

  /// Runs what is queued, on the connection's thread.
  func run() { unsafe jobs.run(on: asUnownedSerialExecutor()) }

  /// Called when the thread ends.
  func end() { unsafe jobs.end(on: asUnownedSerialExecutor()) }

  func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    unsafe UnownedSerialExecutor(ordinary: self)
  }
}

/// The task executor that the tasks of such an actor should prefer. Otherwise a continuation resumes on the
/// cooperative pool first, and the switch from there costs two wake-ups.
final class BusTaskExecutor: TaskExecutor {
  private let executor: BusExecutor

  init(_ executor: BusExecutor) { self.executor = executor }

  func enqueue(_ job: consuming ExecutorJob) {
    unsafe executor.jobs.enqueue(
      UnownedJob(job), of: asUnownedTaskExecutor(), beside: executor.asUnownedSerialExecutor())
  }
}
