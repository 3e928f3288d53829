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
