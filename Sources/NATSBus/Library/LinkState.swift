internal import CallBus
internal import Glibc
internal import Synchronization

/// What the library's callbacks report of a link, on any thread.
final class LinkState: Sendable {
  let thread: ConnectionThread
  private let socket = Atomic<Int32>(-1)
  private let wantsWrite = Atomic(false)
  /// Whether the thread polls the socket. Locked while that changes, so that the number of a closed socket is
  /// never polled.
  private let isPolled = Mutex(false)

  /// The sockets of all links of this process.
  private static let sockets = Mutex<Set<Int32>>([])
  static func isAttached(_ descriptor: Int32) -> Bool {
    sockets.withLock { $0.contains(descriptor) }
  }

  init(_ thread: ConnectionThread) { self.thread = thread }

  /// Whether there is a socket.
  var isAttached: Bool { descriptor >= 0 }
  var mustWrite: Bool { wantsWrite.load(ordering: .acquiring) }
  var descriptor: Int32 { socket.load(ordering: .acquiring) }

  // MARK: From the library

  func attached(_ descriptor: Int32) {
    Self.sockets.withLock { _ = $0.insert(descriptor) }
    socket.store(descriptor, ordering: .releasing)
  }

  func detached() {
    isPolled.withLock { isPolled in
      let descriptor = socket.exchange(-1, ordering: .acquiringAndReleasing)
      if isPolled, descriptor >= 0 { thread.poll.remove(descriptor) }
      Self.sockets.withLock { _ = $0.remove(descriptor) }
      isPolled = false
    }
    thread.poll.wake()
  }

  func setWantsWrite(_ wants: Bool) {
    wantsWrite.store(wants, ordering: .releasing)
    if wants, pthread_self() != thread.holder.load(ordering: .acquiring) { thread.poll.wake() }
  }

  // MARK: From the thread

  /// Begins to poll the socket.
  func poll() {
    isPolled.withLock { isPolled in
      let descriptor = descriptor
      guard descriptor >= 0 else { return }
      thread.poll.add(descriptor)
      isPolled = true
    }
  }
}
