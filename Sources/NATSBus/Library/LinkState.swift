internal import CNATS
internal import CallBus
internal import Glibc
internal import Synchronization

/// The state of a link, as the library's callbacks report it, on any thread.
final class LinkState: Sendable {
  let thread: ConnectionThread
  private let socket = Atomic<Int32>(-1)
  private let wantsWrite = Atomic(false)
  /// Whether the thread polls the socket. Locked while that changes, so that the number of a closed socket is never
  /// polled.
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

/// One socket and one wake-up descriptor in an epoll instance.
///
/// Any thread of the library may remove the socket; the kernel synchronises.
final class EventPoll: Sendable {
  private let poll: Int32
  private let event: Int32

  init() {
    poll = epoll_create1(Int32(EPOLL_CLOEXEC))
    event = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    precondition(poll >= 0 && event >= 0, "cannot create an epoll instance: error \(errno)")
    // Edge triggered: each signal is an edge, so the counter need not be read.
    control(EPOLL_CTL_ADD, event, EPOLLIN.rawValue | EPOLLET.rawValue)
  }

  deinit {
    Glibc.close(event)
    Glibc.close(poll)
  }

  func wake() {
    var one: UInt64 = 1
    _ = unsafe write(event, &one, 8)
  }

  func add(_ socket: Int32) { control(EPOLL_CTL_ADD, socket, EPOLLIN.rawValue) }
  func remove(_ socket: Int32) { control(EPOLL_CTL_DEL, socket, 0) }
  func watchWrites(_ socket: Int32, _ on: Bool) {
    control(EPOLL_CTL_MOD, socket, EPOLLIN.rawValue | (on ? EPOLLOUT.rawValue : 0))
  }

  /// Waits for events, for at most `milliseconds`; without limit if negative.
  /// - Returns: whether the socket has something to read, or has failed.
  func wait(milliseconds: Int32) -> Bool {
    var isReadable = false
    unsafe withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: 4) { buffer in
      let count = unsafe epoll_wait(poll, buffer.baseAddress, 4, milliseconds)
      for index in 0..<max(0, Int(count)) where unsafe buffer[index].data.fd != event {
        if unsafe buffer[index].events & ~EPOLLOUT.rawValue != 0 { isReadable = true }
      }
    }
    return isReadable
  }

  private func control(_ operation: Int32, _ descriptor: Int32, _ events: UInt32) {
    var request = unsafe epoll_event(events: events, data: epoll_data(fd: descriptor))
    _ = unsafe epoll_ctl(poll, operation, descriptor, &request)
  }
}
