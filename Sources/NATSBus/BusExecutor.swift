internal import CallBus

/// Runs actors on the connection's thread, behind what was read and before what is written: an
/// actor that answers what comes from the bus costs no wake-up of another thread on either way.
final class BusExecutor: SerialExecutor {
  let jobs: ExecutorJobQueue

  init(_ outbox: Outbox) {
    jobs = ExecutorJobQueue { outbox.wakeIfAsleep() }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    jobs.enqueue(UnownedJob(job), of: asUnownedSerialExecutor())
  }

  func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    UnownedSerialExecutor(ordinary: self)
  }
}

/// For the tasks of such an actor. A continuation does not resume on its actor but on the cooperative
/// pool, and switches from there, which costs two wake-ups; unless its task prefers this executor.
final class BusTaskExecutor: TaskExecutor {
  private let executor: BusExecutor

  init(_ executor: BusExecutor) { self.executor = executor }

  func enqueue(_ job: consuming ExecutorJob) {
    executor.jobs.enqueue(
      UnownedJob(job), of: asUnownedTaskExecutor(), beside: executor.asUnownedSerialExecutor())
  }
}
