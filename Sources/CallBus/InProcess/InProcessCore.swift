internal import Synchronization

/// The thread of an `InProcessBus`, and its state.
final class InProcessCore: Sendable {
  struct Subscription {
    var id: UInt64
    var filter: SubjectFilter
    var queue: String?
    var handler: MessageHandler
  }

  enum Work {
    case message(OutgoingMessage)
    case run(@Sendable () -> Void)
  }

  struct State {
    var work: [Work] = []
    var messagesWaiting = 0
    var subscriptions: [Subscription] = []
    var readCompleteHandlers: [@Sendable () -> Void] = []
    var lastID: UInt64 = 0
    var closed = false
    var statistics = BusStatistics()
  }

  let outboxCapacity: Int
  let state = Mutex(State())
  let store = Mutex(InProcessStore())
  let faults = Mutex(InProcessFaults())
  /// nil until it is opened.
  let work = Mutex<InProcessWorkQueue.Shared?>(nil)
  private let requests = PendingRequests()
  private let signal = ThreadSignal()

  init(outboxCapacity: Int) { self.outboxCapacity = outboxCapacity }

  var statistics: BusStatistics {
    state.withLock { state in
      var statistics = state.statistics
      statistics.connected = !state.closed
      statistics.server = "in process"
      statistics.outboxDepth = state.messagesWaiting
      return statistics
    }
  }

  func publish(_ messages: some Collection<OutgoingMessage>) -> Int {
    let dropped = state.withLock { state in
      let room = state.closed ? 0 : outboxCapacity - state.messagesWaiting
      let taken = min(room, messages.count)
      for message in messages.prefix(taken) { state.work.append(.message(message)) }
      state.messagesWaiting += taken
      state.statistics.dropped += UInt64(messages.count - taken)
      return messages.count - taken
    }
    signal.signal()
    return dropped
  }

  /// Runs a closure on the bus's thread, after what was published before. Returns false if the bus is closed.
  @discardableResult
  func enqueue(_ body: @escaping @Sendable () -> Void) -> Bool {
    let taken = state.withLock { state in
      guard !state.closed else { return false }
      state.work.append(.run(body))
      return true
    }
    signal.signal()
    return taken
  }

  /// Runs a closure on the bus's thread and waits for its result.
  func perform<Value: Sendable>(
    _ body: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      let taken = enqueue { continuation.resume(with: Result { try body() }) }
      if !taken { continuation.resume(throwing: BusError.closed) }
    }
  }

  /// Runs a closure on the bus's thread, with the store locked, and waits for its result.
  func withStore<Value: Sendable>(
    _ body: @escaping @Sendable (inout InProcessStore) -> Value
  ) async throws -> Value {
    try await perform { [self] in store.withLock { body(&$0) } }
  }

  /// Runs a write on the bus's thread, unless a fault that a test injects prevents it or hides its result.
  func write(
    _ completion: @escaping AppendCompletion,
    fault: @escaping @Sendable (InProcessFaults) -> InProcessFaults.Append?,
    body: @escaping @Sendable (InProcessFaults.Append?) -> AppendResult
  ) {
    let taken = enqueue { [self] in
      let fault = fault(faults.withLock { $0 })
      switch fault {
      case .refuse: completion(.refused)
      case .unknown(let stored):
        if stored { _ = body(fault) }
        completion(.unknown("a fault for tests"))
      case nil, .race: completion(body(fault))
      }
    }
    if !taken { completion(.unknown("the bus is closed")) }
  }

  func subscribe(
    _ subject: String, queue: String?, handler: @escaping MessageHandler
  ) throws -> InProcessSubscription {
    let id = try state.withLock { state in
      if state.closed { throw BusError.closed }
      state.lastID += 1
      state.subscriptions.append(
        Subscription(
          id: state.lastID, filter: SubjectFilter(subject), queue: queue, handler: handler))
      return state.lastID
    }
    return InProcessSubscription { [weak self] in
      self?.state.withLock { $0.subscriptions.removeAll { $0.id == id } }
    }
  }

  func request(
    _ subject: String, _ bytes: [UInt8], timeout: Duration, limit: Int, needsReply: Bool
  ) async throws -> [BusMessage] {
    let id = state.withLock { state in
      state.lastID += 1
      return state.lastID
    }
    return try await requests.replies { completion in
      let request = PendingRequest(
        subject, bytes, inbox: "_INBOX.\(id)", timeout: timeout, limit: limit,
        needsReply: needsReply, completion: completion)
      do {
        let subscription = try subscribe(request.inbox, queue: nil) { [requests] in
          requests.received($0, for: request)
        }
        requests.add(request, subscription)
        if publish(CollectionOfOne(request.message)) > 0 {
          throw BusError.failed("the outbox is full, \(request.inbox) was not sent")
        }
      } catch {
        requests.end(request, error)
      }
      return request
    }
  }

  func addReadCompleteHandler(_ handler: @escaping @Sendable () -> Void) {
    state.withLock { $0.readCompleteHandlers.append(handler) }
  }

  func close(completion: @escaping @Sendable () -> Void) {
    let first = state.withLock { state in
      if state.closed { return false }
      state.work.append(.run(completion))
      state.closed = true
      return true
    }
    signal.signal()
    if !first { completion() }
  }

  func run() {
    while true {
      let (work, handlers, closed) = state.withLock { state in
        var work: [Work] = []
        swap(&work, &state.work)
        return (work, state.readCompleteHandlers, state.closed)
      }
      for item in work {
        switch item {
        case .message(let message): deliver(message)
        case .run(let body): body()
        }
      }
      let nextWork = closed ? nil : handOutWork()
      if !work.isEmpty { for handler in handlers { handler() } }
      if closed { return requests.endAll(BusError.closed) }
      let next = [requests.expire(now: .now), nextWork].compactMap(\.self).min()
      if work.isEmpty { signal.wait(atMost: next.map { $0 - .now }) }
    }
  }

  private func deliver(_ message: OutgoingMessage) {
    let lost = faults.withLock({ $0.dropMessage })?(message) ?? false
    let handlers = state.withLock { state in
      state.messagesWaiting -= 1
      state.statistics.messagesOut += 1
      guard !lost else { return [MessageHandler]() }
      let handlers = receivers(of: message.subject, &state)
      state.statistics.messagesIn += UInt64(handlers.count)
      return handlers
    }
    if handlers.isEmpty, !lost, let request = message.replyTo.flatMap({ requests[$0] }) {
      requests.end(request, BusError.noResponders)
    }
    let message = BusMessage(
      subject: message.subject, replyTo: message.replyTo, bytes: message.bytes)
    for handler in handlers { handler(message) }
  }

  /// All plain subscriptions, and one of each queue group in turn.
  private func receivers(of subject: String, _ state: inout State) -> [MessageHandler] {
    var handlers: [MessageHandler] = []
    var groups: [String: [MessageHandler]] = [:]
    for subscription in state.subscriptions where subscription.filter.matches(subject) {
      if let queue = subscription.queue {
        groups[queue, default: []].append(subscription.handler)
      } else {
        handlers.append(subscription.handler)
      }
    }
    for group in groups.values {
      handlers.append(group[Int(state.statistics.messagesOut % UInt64(group.count))])
    }
    return handlers
  }
}

final class InProcessSubscription: BusSubscription {
  private let onCancel: @Sendable () -> Void
  init(onCancel: @escaping @Sendable () -> Void) { self.onCancel = onCancel }
  func cancel() { onCancel() }
}
