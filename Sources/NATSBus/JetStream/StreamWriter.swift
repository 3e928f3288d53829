internal import CallBus
internal import Synchronization

/// Writes to one stream with acknowledgements, as plain messages with a reply subject, which costs least.
final class StreamWriter: Sendable, ConnectionObserver {
  private let bus: NATSBus
  private let writes: StreamWrites
  private let subscription: NATSSubscription

  /// - Parameter hasLimit: whether the stream refuses writes when it is full.
  init(_ bus: NATSBus, timeout: Duration, hasLimit: Bool = false) {
    self.bus = bus
    let prefix = bus.newInbox() + "."
    let length = prefix.utf8.count
    let writes = StreamWrites(
      inboxPrefix: prefix, timeout: timeout, capacity: bus.thread.options.streamWritesMax)
    self.writes = writes
    subscription = NATSSubscription(
      prefix + "*", outbox: bus.thread.outbox,
      handler: .inPlace { message in
        guard let token = message.subjectNumber(after: length) else { return }
        writes.end(
          token, message.withBytes { StreamAcknowledgement.result($0, hasLimit: hasLimit) })
      },
      // The library does not report which write it was; none of the pending ones is known to be stored.
      onNoResponders: { writes.endAll("no stream takes the message; is JetStream up?") })
    bus.subscribe(subscription)
    bus.thread.observers.withLock { $0.append(self) }
  }

  func write(
    _ subject: String, _ bytes: [UInt8], expecting: UInt64?, isDeletion: Bool = false,
    messageID: String? = nil, completion: @escaping AppendCompletion
  ) {
    guard let token = writes.begin(completion) else {
      fail("too many writes wait", completion)
      return
    }
    let write = StreamWrite(
      table: writes, token: token, subject: subject, bytes: bytes, expecting: expecting,
      isDeletion: isDeletion, messageID: messageID)
    guard !bus.thread.send(write) else { return }
    let text = bus.thread.outbox.isClosed ? "the bus is closed" : "the outbox is full"
    fail(text) { [writes] in writes.end(token, $0) }
  }

  func write(_ subject: String, _ bytes: [UInt8], expecting: UInt64?) async -> AppendResult {
    await withCheckedContinuation { continuation in
      write(subject, bytes, expecting: expecting) { continuation.resume(returning: $0) }
    }
  }

  /// Completes a write that was not sent: on the bus's thread, unless that has ended.
  func fail(_ text: String, _ completion: @escaping AppendCompletion) {
    let taken = bus.thread.outbox.run { _ in completion(.unknown(text)) }
    if !taken { completion(.unknown(text)) }
  }

  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant? { writes.expire(now: now) }
  func disconnected() { writes.endAll("the connection broke") }
  func reconnected() {}
}

/// A publication to a stream that is acknowledged by the server.
struct StreamWrite: Sendable {
  var table: StreamWrites
  var token: UInt64
  var subject: String
  var bytes: [UInt8]
  /// The sequence that the subject's last message must have; nil: any.
  var expecting: UInt64?
  /// A deletion marker in a bucket.
  var isDeletion = false
  /// `Nats-Msg-Id`: a second message with this id within the stream's deduplication window is not stored.
  var messageID: String?
}

/// The writes of one stream that wait for their acknowledgements. Policy when full: refuse.
///
/// All have the same timeout, so they expire in order: they are kept in a queue, and a write is found by its number
/// without hashing.
final class StreamWrites: Sendable {
  private struct Pending {
    var deadline: ContinuousClock.Instant
    var completion: AppendCompletion?
  }
  private struct State {
    var pending: [Pending] = []
    /// How many at the front of `pending` are completed.
    var done = 0
    /// The token of `pending[0]`.
    var base: UInt64 = 1
  }

  /// Acknowledgements arrive on this prefix followed by the token.
  let inboxPrefix: String
  private let timeout: Duration
  private let capacity: Int
  private let state = Mutex(State())

  init(inboxPrefix: String, timeout: Duration, capacity: Int) {
    self.inboxPrefix = inboxPrefix
    self.timeout = timeout
    self.capacity = capacity
  }

  /// Begins a write. Returns its token; nil if too many wait.
  func begin(_ completion: @escaping AppendCompletion) -> UInt64? {
    let deadline = ContinuousClock.now + timeout
    return state.withLock { state in
      guard state.pending.count - state.done < capacity else { return nil }
      state.pending.append(Pending(deadline: deadline, completion: completion))
      return state.base + UInt64(state.pending.count - 1)
    }
  }

  func isPending(_ token: UInt64) -> Bool {
    state.withLock { state in
      guard let index = Self.index(of: token, state) else { return false }
      return state.pending[index].completion != nil
    }
  }

  /// Completes a write. Does nothing if it is completed.
  func end(_ token: UInt64, _ result: AppendResult) {
    let completion = state.withLock { state in
      guard let index = Self.index(of: token, state) else { return nil as AppendCompletion? }
      let completion = state.pending[index].completion.take()
      Self.forgetDone(&state)
      return completion
    }
    completion?(result)
  }

  /// Completes those whose deadline has passed. Returns the next deadline.
  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
    let (due, next) = state.withLock { state in
      var due: [AppendCompletion] = []
      while state.done < state.pending.count, state.pending[state.done].deadline <= now {
        if let completion = state.pending[state.done].completion.take() { due.append(completion) }
        Self.forgetDone(&state)
      }
      return (due, state.done < state.pending.count ? state.pending[state.done].deadline : nil)
    }
    for completion in due { completion(.unknown("no acknowledgement within \(timeout)")) }
    return next
  }

  /// Completes all that wait.
  func endAll(_ reason: String) {
    let left = state.withLock { state in
      let left = state.pending.compactMap(\.completion)
      for index in state.pending.indices { state.pending[index].completion = nil }
      Self.forgetDone(&state)
      return left
    }
    for completion in left { completion(.unknown(reason)) }
  }

  private static func index(of token: UInt64, _ state: borrowing State) -> Int? {
    guard token >= state.base, token - state.base < UInt64(state.pending.count) else { return nil }
    return Int(token - state.base)
  }

  private static func forgetDone(_ state: inout State) {
    while state.done < state.pending.count, state.pending[state.done].completion == nil {
      state.done += 1
    }
    let allDone = state.done == state.pending.count
    guard allDone || (state.done >= 1024 && state.done * 2 >= state.pending.count) else { return }
    state.base += UInt64(state.done)
    state.pending.removeFirst(state.done)
    state.done = 0
  }
}
