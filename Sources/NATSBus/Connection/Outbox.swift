internal import CallBus
internal import Synchronization

/// An operation that another thread queues for the connection's thread.
enum Operation: Sendable {
  case publish(OutgoingMessage)
  /// A write to a stream; skipped if it has ended meanwhile.
  case write(StreamWrite)
  /// Anything else. Not counted against the limits, since there are no more than waiting callers.
  case run(@Sendable (ConnectionThread) -> Void)

  /// Whether any thread may perform it that has the connection in its hands.
  var isForAnyThread: Bool {
    if case .run = self { false } else { true }
  }

  var payloadBytes: Int {
    switch self {
    case .publish(let message): message.bytes.count
    case .write(let write): write.bytes.count
    case .run: 0
    }
  }
}

/// The bounded queue to the connection's thread. Policy when full: refuse, and count.
final class Outbox: Sendable {
  private struct State {
    var operations: [Operation] = []
    var messages = 0
    var bytes = 0
    var dropped: UInt64 = 0
    /// Whether the thread waits in the kernel, or is about to, and must be woken.
    var sleeping = false
    var closed = false
  }

  private let state = Mutex(State())
  private let messagesMax: Int
  private let bytesMax: Int
  private let wake: @Sendable () -> Void

  init(messagesMax: Int, bytesMax: Int, wake: @escaping @Sendable () -> Void) {
    self.messagesMax = messagesMax
    self.bytesMax = bytesMax
    self.wake = wake
  }

  /// Queues a write. Returns whether there was room, and whether the thread sleeps: the caller must then wake it, or do
  /// its work.
  func offer(_ write: StreamWrite) -> (taken: Bool, sleeps: Bool) {
    state.withLock { state in
      guard admits(write.bytes.count, &state) else { return (false, false) }
      state.operations.append(.write(write))
      return (true, state.sleeping.exchange(false))
    }
  }

  /// Queues messages. Returns how many were dropped, and whether the thread sleeps, as above.
  func offer(_ messages: [OutgoingMessage]) -> (dropped: Int, sleeps: Bool) {
    state.withLock { state in
      var dropped = 0
      for message in messages {
        if admits(message.bytes.count, &state) {
          state.operations.append(.publish(message))
        } else {
          dropped += 1
        }
      }
      return (dropped, state.sleeping.exchange(false))
    }
  }

  /// Queues a closure for the thread. Returns false if the bus is closed.
  @discardableResult
  func run(_ body: @escaping @Sendable (ConnectionThread) -> Void) -> Bool {
    let (taken, mustWake) = state.withLock { state in
      guard !state.closed else { return (false, false) }
      state.operations.append(.run(body))
      return (true, state.sleeping.exchange(false))
    }
    if mustWake { wake() }
    return taken
  }

  /// Swaps the queued operations for an empty array.
  func takeAll(into operations: inout [Operation]) {
    state.withLock { state in
      swap(&operations, &state.operations)
      state.messages = 0
      state.bytes = 0
    }
  }

  /// Whether the thread may wait. If so, the next operation wakes it.
  /// - Parameter evenWithWork: whether the thread cannot send now and waits for the connection.
  func sleeps(evenWithWork: Bool) -> Bool {
    state.withLock { state in
      state.sleeping = evenWithWork || state.operations.isEmpty
      return state.sleeping
    }
  }

  func wakeIfAsleep() {
    if state.withLock({ $0.sleeping.exchange(false) }) { wake() }
  }

  func awake() { state.withLock { $0.sleeping = false } }

  func close() { state.withLock { $0.closed = true } }

  var isClosed: Bool { state.withLock { $0.closed } }
  var isEmpty: Bool { state.withLock { $0.operations.isEmpty } }
  var depth: Int { state.withLock { $0.messages } }
  var dropped: UInt64 { state.withLock { $0.dropped } }

  private func admits(_ bytes: Int, _ state: inout State) -> Bool {
    guard !state.closed, state.messages < messagesMax, state.bytes + bytes <= bytesMax else {
      state.dropped += 1
      return false
    }
    state.messages += 1
    state.bytes += bytes
    return true
  }
}

extension Bool {
  /// Sets a new value and returns the former one.
  fileprivate mutating func exchange(_ new: Bool) -> Bool {
    defer { self = new }
    return self
  }
}
