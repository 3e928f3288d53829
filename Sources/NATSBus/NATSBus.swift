public import CallBus
internal import Synchronization

/// The cluster's engine over NATS with JetStream: one connection, worked by one thread.
public final class NATSBus: ClusterBus {
  let thread: ConnectionThread
  /// Unique to this connection, so that answers come here only.
  let inbox: String
  private let lastInbox = Atomic<UInt64>(0)

  private init(_ thread: ConnectionThread) {
    self.thread = thread
    let role = thread.options.role
    let own = role.map { thread.options.subjects.inbox(of: $0) } ?? "_INBOX"
    inbox = own + "." + String(UInt64.random(in: .min ... .max), radix: 36)
  }

  deinit { thread.close {} }

  /// Connects to one of the servers in a comma-separated list, such as `nats://127.0.0.1:4222`.
  ///
  /// Once this has returned, a connection that breaks is restored for as long as the bus lives.
  /// - Parameter name: what the server shows of this connection.
  /// - Throws: `BusError.notReady` where no server can be reached, which may pass; `BusError.failed`
  ///   where one refuses or the address is none; each with a sentence for the operator, without
  ///   credentials. `CancellationError` as soon as the task is cancelled.
  public static func connect(url: String, name: String, options: NATSOptions) async throws
    -> NATSBus
  {
    let thread = ConnectionThread(options: options)
    let attempt = ConnectAttempt()
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        guard attempt.begin(continuation) else { return }
        startThread(named: "nats-bus") {
          thread.run(url: url, name: name) { result in
            if case .success = result { thread.readServerVersion() }
            attempt.end(result)
          }
        }
      }
    } onCancel: {
      // The library cannot be interrupted: its thread ends when it has connected, or failed to.
      thread.close {}
      attempt.end(.failure(CancellationError()))
    }
    return NATSBus(thread)
  }

  @discardableResult
  public func publish(_ subject: String, _ bytes: [UInt8], replyTo: String?) -> Bool {
    thread.send([OutgoingMessage(subject: subject, bytes: bytes, replyTo: replyTo)]) == 0
  }

  @discardableResult
  public func publish(_ messages: [OutgoingMessage]) -> Int {
    thread.send(messages)
  }

  public func subscribe(
    _ subject: String, queue: String?, handler: @escaping @Sendable (BusMessage) -> Void
  ) throws -> any BusSubscription {
    guard SubjectFilter.isValid(subject) else {
      throw BusError.failed("not a subject: '\(subject)'")
    }
    let subscription = NATSSubscription(
      subject, queue: queue, outbox: thread.outbox, handler: .copies(handler))
    guard subscribe(subscription) else { throw BusError.closed }
    return subscription
  }

  @discardableResult
  func subscribe(_ subscription: NATSSubscription) -> Bool {
    thread.outbox.run { $0.subscribe(subscription) }
  }

  public var executor: (any SerialExecutor)? { thread.executor }
  public var taskExecutor: (any TaskExecutor)? { thread.taskExecutor }
  public var timers: (any Timers)? { thread.timers }

  public func onReadComplete(_ handler: @escaping @Sendable () -> Void) {
    thread.readCompleteHandlers.withLock { $0.append(handler) }
  }

  public func request(_ subject: String, _ bytes: [UInt8], timeout: Duration) async throws
    -> BusMessage
  {
    let replies = try await ask(subject, bytes, timeout: timeout, limit: 1, needsReply: true)
    guard let reply = replies.first else { throw BusError.timeout }
    return reply
  }

  public func requestMany(_ subject: String, _ bytes: [UInt8], window: Duration, limit: Int)
    async throws -> [BusMessage]
  {
    try await ask(subject, bytes, timeout: window, limit: limit, needsReply: false)
  }

  public var statistics: BusStatistics {
    let counters = thread.counters
    var statistics = BusStatistics()
    statistics.connected = counters.connected.load(ordering: .relaxed)
    statistics.server = counters.server.withLock { $0 }
    statistics.serverVersion = counters.serverVersion.withLock { $0 }
    statistics.reconnects = counters.reconnects.load(ordering: .relaxed)
    statistics.messagesIn = counters.messagesIn.load(ordering: .relaxed)
    statistics.messagesOut = counters.messagesOut.load(ordering: .relaxed)
    statistics.bytesIn = counters.bytesIn.load(ordering: .relaxed)
    statistics.bytesOut = counters.bytesOut.load(ordering: .relaxed)
    statistics.dropped = counters.dropped.load(ordering: .relaxed) + thread.outbox.dropped
    statistics.outboxDepth = thread.outbox.depth + counters.backlog.load(ordering: .relaxed)
    return statistics
  }

  public func close() async {
    await withCheckedContinuation { continuation in
      thread.close { continuation.resume() }
    }
  }

  /// A subject under this connection's inbox that nobody else has.
  func newInbox() -> String {
    let number = lastInbox.wrappingAdd(1, ordering: .relaxed).newValue
    return "\(inbox).\(number)"
  }

  // MARK: Requests

  private func ask(
    _ subject: String, _ bytes: [UInt8], timeout: Duration, limit: Int, needsReply: Bool
  ) async throws -> [BusMessage] {
    let started = Mutex<PendingRequest?>(nil)
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let request = start(
          subject, bytes, timeout: timeout, limit: limit, needsReply: needsReply
        ) { continuation.resume(with: $0) }
        started.withLock { $0 = request }
        if Task.isCancelled { thread.requests.end(request, CancellationError()) }
      }
    } onCancel: {
      guard let request = started.withLock({ $0 }) else { return }
      thread.requests.end(request, CancellationError())
    }
  }

  /// Starts a request. `completion` is called once, as a rule on the connection's thread.
  @discardableResult
  func start(
    _ subject: String, _ bytes: [UInt8], timeout: Duration, limit: Int = 1,
    needsReply: Bool = true, completion: @escaping PendingRequest.Completion
  ) -> PendingRequest {
    let request = PendingRequest(
      subject: subject, bytes: bytes, inbox: newInbox(), deadline: .now + timeout, limit: limit,
      needsReply: needsReply, completion: completion)
    let requests = thread.requests
    let subscription = NATSSubscription(
      request.inbox, outbox: thread.outbox,
      handler: .copies { reply in
        if request.add(reply) { requests.end(request, nil) }
      },
      onNoResponders: { requests.end(request, BusError.noResponders) })
    requests.add(request, subscription)
    let taken = thread.outbox.run { thread in
      guard requests.isWaiting(request) else { return }
      thread.subscribe(subscription)
      thread.publish(request.subject, request.bytes, replyTo: request.inbox)
    }
    if !taken { requests.end(request, BusError.closed) }
    return request
  }
}

/// Who waits for a connection, until it is there or nobody waits any more. The first word counts.
private final class ConnectAttempt: Sendable {
  private enum State {
    case new
    case waiting(CheckedContinuation<Void, any Error>)
    case over(Result<Void, any Error>)
  }
  private let state = Mutex(State.new)

  /// False where the attempt was given up before it began.
  func begin(_ continuation: CheckedContinuation<Void, any Error>) -> Bool {
    let early: Result<Void, any Error>? = state.withLock { state in
      if case .over(let result) = state { return result }
      state = .waiting(continuation)
      return nil
    }
    guard let early else { return true }
    continuation.resume(with: early)
    return false
  }

  func end(_ result: Result<Void, any Error>) {
    let waiter: CheckedContinuation<Void, any Error>? = state.withLock { state in
      switch state {
      case .new:
        state = .over(result)
        return nil
      case .waiting(let continuation):
        state = .over(result)
        return continuation
      case .over: return nil
      }
    }
    waiter?.resume(with: result)
  }
}
