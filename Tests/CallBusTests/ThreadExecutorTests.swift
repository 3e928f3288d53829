import CallBus
import Glibc
import Testing

/// The kernel's name of the calling thread. (`pthread_self` is declared constant: the compiler moves
/// it out of an actor's method, to the thread of the caller.)
private func currentThread() -> String {
  withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
    let length = readlink("/proc/thread-self", buffer.baseAddress!, 63)
    buffer[max(0, length)] = 0
    return String(cString: buffer.baseAddress!)
  }
}

/// Actors on a thread of ours.
@Suite struct ThreadExecutorTests {
  private actor Resident {
    private let executor: ThreadExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor {
      executor.asUnownedSerialExecutor()
    }
    private var threads: Set<String> = []
    private var count = 0

    init(_ executor: ThreadExecutor) { self.executor = executor }

    func visit() -> Int {
      threads.insert(currentThread())
      count += 1
      return count
    }

    var threadCount: Int { threads.count }
  }

  @Test func allJobsOfAnActorRunOnOneThread() async {
    let resident = Resident(ThreadExecutor(name: "test"))
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<8 {
        group.addTask { for _ in 0..<500 { _ = await resident.visit() } }
      }
    }
    #expect(await resident.visit() == 4001)
    #expect(await resident.threadCount == 1)
  }
}
