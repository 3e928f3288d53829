internal import Glibc

/// Starts a detached thread, for code that blocks and so must not run on the cooperative pool.
///
/// - Parameter name: what `top -H` and `perf` show; 15 bytes at most.
package func startThread(named name: String, _ body: @escaping @Sendable () -> Void) {
  let start = Unmanaged.passRetained(ThreadStart(name: name, body: body))
  var thread = pthread_t()
  let status = pthread_create(
    &thread, nil,
    { context in
      let start = Unmanaged<ThreadStart>.fromOpaque(context!).takeRetainedValue()
      start.setName()
      start.body()
      return nil
    }, start.toOpaque())
  precondition(status == 0, "cannot start the thread \(name): error \(status)")
  pthread_detach(thread)
}

private final class ThreadStart: Sendable {
  let name: String
  let body: @Sendable () -> Void
  init(name: String, body: @escaping @Sendable () -> Void) {
    self.name = String(name.prefix(15))
    self.body = body
  }

  /// Glibc's module lacks `pthread_setname_np`; the kernel takes the name from here as well.
  func setName() {
    let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return }
    var name = Array(name.utf8)
    _ = write(file, &name, name.count)
    close(file)
  }
}

/// A condition that one thread waits for and others signal. Several signals before a wait count as one.
///
/// `@unchecked Sendable`: its mutex guards all its state.
package final class ThreadSignal: @unchecked Sendable {
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
  private var signalled = false

  package init() {
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_mutex_init(mutex, nil)
    pthread_cond_init(condition, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_cond_destroy(condition)
    pthread_mutex_destroy(mutex)
    condition.deallocate()
    mutex.deallocate()
  }

  /// Wakes the waiting thread, or makes its next wait return at once.
  package func signal() {
    pthread_mutex_lock(mutex)
    let wakes = !signalled
    signalled = true
    pthread_mutex_unlock(mutex)
    if wakes { pthread_cond_signal(condition) }
  }

  /// Waits for a signal, at most for `limit`; without limit if nil.
  package func wait(atMost limit: Duration?) {
    pthread_mutex_lock(mutex)
    if let limit {
      var time = Self.time(after: limit)
      while !signalled, pthread_cond_timedwait(condition, mutex, &time) == 0 {}
    } else {
      while !signalled { pthread_cond_wait(condition, mutex) }
    }
    signalled = false
    pthread_mutex_unlock(mutex)
  }

  private static func time(after limit: Duration) -> timespec {
    let parts = min(max(limit, .zero), .seconds(86_400)).components
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    time.tv_sec += Int(parts.seconds)
    time.tv_nsec += Int(parts.attoseconds / 1_000_000_000)
    if time.tv_nsec >= 1_000_000_000 {
      time.tv_sec += 1
      time.tv_nsec -= 1_000_000_000
    }
    return time
  }
}
