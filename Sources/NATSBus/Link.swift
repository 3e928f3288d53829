internal import CNATS
internal import CallBus
internal import Glibc
internal import Synchronization

/// One connection of the library, until it breaks; then there is another one.
///
/// The library could mend a connection by itself. But in its event-loop mode the parser lives on with half of
/// what the broken connection said, and takes what the new one says for the other half: messages are
/// garbled, or no connection lasts for longer than its first bytes, for ever (nats.c issue 1007; all
/// versions up to 3.13).
struct Link: Sendable {
  let state: LinkState
  /// Belongs to who opened it, and then to who holds the thread's `hands`.
  nonisolated(unsafe) let connection: OpaquePointer

  /// What the server said before it closed the connection, where that is why.
  var complaint: String? {
    var text: UnsafePointer<CChar>?
    guard natsConnection_GetLastError(connection, &text) == NATS_ERR, let text else { return nil }
    return withoutCredentials(text: String(cString: text))
  }

  /// Ends it.
  func discard() { natsConnection_Destroy(connection) }
}

/// What the library's callbacks say of a link, on whatever thread.
final class LinkState: Sendable {
  let thread: ConnectionThread
  private let socket = Atomic<Int32>(-1)
  private let wantsWrite = Atomic(false)
  /// Whether the thread waits for events of the socket. Held while that changes, so that no number of a
  /// socket that is closed is watched.
  private let isWatched = Mutex(false)

  /// The sockets of all links of this process.
  private static let taken = Mutex<Set<Int32>>([])
  static func isTaken(_ descriptor: Int32) -> Bool { taken.withLock { $0.contains(descriptor) } }

  init(_ thread: ConnectionThread) { self.thread = thread }

  /// Whether there is a socket.
  var isAttached: Bool { socket.load(ordering: .acquiring) >= 0 }
  var mustWrite: Bool { wantsWrite.load(ordering: .acquiring) }
  var descriptor: Int32 { socket.load(ordering: .acquiring) }

  // MARK: From the library

  func attached(_ descriptor: Int32) {
    Self.taken.withLock { _ = $0.insert(descriptor) }
    socket.store(descriptor, ordering: .releasing)
  }

  func detached() {
    isWatched.withLock { isWatched in
      let descriptor = socket.exchange(-1, ordering: .acquiringAndReleasing)
      if isWatched, descriptor >= 0 { thread.poll.remove(descriptor) }
      Self.taken.withLock { _ = $0.remove(descriptor) }
      isWatched = false
    }
    thread.poll.wake()
  }

  func setWantsWrite(_ wants: Bool) {
    wantsWrite.store(wants, ordering: .releasing)
    if wants, pthread_self() != thread.holder.load(ordering: .acquiring) { thread.poll.wake() }
  }

  // MARK: From the thread

  /// From now on the thread is told of what comes.
  func watch() {
    isWatched.withLock { isWatched in
      let descriptor = socket.load(ordering: .acquiring)
      guard descriptor >= 0 else { return }
      thread.poll.add(descriptor)
      isWatched = true
    }
  }
}

/// Opens the link that follows one that broke, on a thread of its own, since to connect blocks. Tries until a
/// server takes it, or one refuses twice in a row, or nobody wants it any more.
final class Reopening: Sendable {
  enum Outcome: Sendable {
    case opened(Link)
    case refused(BusError)
  }
  private enum State {
    case under
    case over(Outcome)
    case abandoned
  }
  private let state = Mutex(State.under)

  /// Milliseconds between two rounds through all servers.
  private static let pause = 100...200
  private static let refusalsMax = 2

  /// - Parameters:
  ///   - lost: the server that the broken link led to; it is tried last.
  ///   - pauses: whether to wait before the first attempt, too, since the last link broke at once.
  init(for thread: ConnectionThread, url: String, name: String, lost: String, pauses: Bool) {
    startThread(named: "nats-connect") { [self] in
      if pauses { Self.wait() }
      offer(outcome(thread, url, name, lost), thread)
    }
  }

  private static func wait() { usleep(UInt32(Int.random(in: pause)) * 1000) }

  /// Once.
  func take() -> Outcome? {
    state.withLock { state in
      guard case .over(let outcome) = state else { return nil }
      state = .abandoned
      return outcome
    }
  }

  func abandon() {
    let outcome: Outcome? = state.withLock { state in
      defer { state = .abandoned }
      if case .over(let outcome) = state { return outcome }
      return nil
    }
    if case .opened(let link) = outcome { link.discard() }
  }

  private var isAbandoned: Bool {
    state.withLock { if case .abandoned = $0 { true } else { false } }
  }

  private func outcome(
    _ thread: ConnectionThread, _ url: String, _ name: String, _ lost: String
  ) -> Outcome? {
    var refusals = 0
    while !isAbandoned {
      do throws(ConnectFailure) {
        return .opened(try openConnection(for: thread, url: url, name: name, lost: lost))
      } catch {
        refusals = error.isRefusal ? refusals + 1 : 0
        if refusals >= Self.refusalsMax { return .refused(error.reason) }
      }
      Self.wait()
    }
    return nil
  }

  private func offer(_ outcome: Outcome?, _ thread: ConnectionThread) {
    guard let outcome else { return }
    let isWanted = state.withLock { state in
      if case .abandoned = state { return false }
      state = .over(outcome)
      return true
    }
    if isWanted {
      thread.poll.wake()
    } else if case .opened(let link) = outcome {
      link.discard()
    }
  }
}
