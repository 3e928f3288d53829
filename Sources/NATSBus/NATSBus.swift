public import CallBus
internal import Synchronization

/// The bus over NATS with JetStream: one connection, driven by one thread.
public final class NATSBus: ClusterBus {
  let thread: ConnectionThread
  /// The prefix of reply subjects, unique to this connection.
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
  /// From then on, a broken connection is restored for as long as the bus lives.
  /// - Parameter name: the connection's name at the server.
  /// - Throws: `BusError.notReady` if no server can be reached, which may pass; `BusError.failed` if a server refuses,
  ///   or if the address is not valid. Both have a sentence for the operator, without credentials. `CancellationError`
  ///   as soon as the task is cancelled.
  public static func connect(url: String, name: String, options: NATSOptions) async throws
    -> NATSBus
  {
    try Task.checkCancellation()
    let thread = ConnectionThread(options: options)
    let results = Inbox<Result<Void, any Error>>(capacity: 1)
    startThread(named: "nats-bus") {
      thread.run(url: url, name: name) { result in
        if case .success = result { thread.readServerVersion() }
        results.offer(result)
      }
    }
    guard let result = await results.next(until: nil).first else {
      // The library cannot be interrupted: its thread ends once it has connected or failed to.
      thread.close {}
      throw CancellationError()
    }
    try result.get()
    return NATSBus(thread)
  }

  @discardableResult
  public func publish(_ subject: String, _ bytes: [UInt8], replyTo: String?) -> Bool {
    thread.send([OutgoingMessage(subject: subject, bytes: bytes, replyTo: replyTo)]) == 0
  }

  @discardableResult
  public func publish(_ messages: [OutgoingMessage]) -> Int { thread.send(messages) }

  public func subscribe(
    _ subject: String, queue: String?, handler: @escaping MessageHandler
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

  public var actorThread: ActorThread? { thread.actorThread }

  public func onReadComplete(_ handler: @escaping @Sendable () -> Void) {
    thread.readCompleteHandlers.withLock { $0.append(handler) }
  }

  public func request(_ subject: String, _ bytes: [UInt8], timeout: Duration) async throws
    -> BusMessage
  {
    try await replies(subject, bytes, timeout: timeout, limit: 1, needsReply: true)[0]
  }

  public func requestMany(_ subject: String, _ bytes: [UInt8], window: Duration, limit: Int)
    async throws -> [BusMessage]
  {
    try await replies(subject, bytes, timeout: window, limit: limit, needsReply: false)
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
    statistics.dropped = counters.dropped.load(ordering: .relaxed) + thread.outbox.dropped
    statistics.outboxDepth = thread.outbox.depth + counters.backlog.load(ordering: .relaxed)
    return statistics
  }

  public func close() async {
    await withCheckedContinuation { continuation in
      thread.close { continuation.resume() }
    }
  }

  /// A new subject under this connection's inbox.
  func newInbox() -> String {
    let number = lastInbox.wrappingAdd(1, ordering: .relaxed).newValue
    return "\(inbox).\(number)"
  }

  // MARK: Requests

  private func replies(
    _ subject: String, _ bytes: [UInt8], timeout: Duration, limit: Int, needsReply: Bool
  ) async throws -> [BusMessage] {
    try await thread.requests.replies {
      start(subject, bytes, timeout: timeout, limit: limit, needsReply: needsReply, completion: $0)
    }
  }

  /// Starts a request. `completion` is called once, as a rule on the connection's thread.
  @discardableResult
  func start(
    _ subject: String, _ bytes: [UInt8], timeout: Duration, limit: Int = 1,
    needsReply: Bool = true, completion: @escaping PendingRequest.Completion
  ) -> PendingRequest {
    let request = PendingRequest(
      subject, bytes, inbox: newInbox(), timeout: timeout, limit: limit, needsReply: needsReply,
      completion: completion)
    let requests = thread.requests
    let subscription = NATSSubscription(
      request.inbox, outbox: thread.outbox,
      handler: .copies { requests.received($0, for: request) },
      onNoResponders: { requests.end(request, BusError.noResponders) })
    requests.add(request, subscription)
    let taken = thread.outbox.run { thread in
      guard requests[request.inbox] != nil else { return }
      thread.subscribe(subscription)
      thread.publish(subject, bytes, replyTo: request.inbox)
    }
    if !taken { requests.end(request, BusError.closed) }
    return request
  }
}
