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
