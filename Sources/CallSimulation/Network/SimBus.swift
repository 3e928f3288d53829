package import CallBus
package import CallCore

/// A node's bus, journals and buckets on a simulated NATS. It behaves like `NATSBus`: without a
/// connection, messages wait for the next one. When a connection breaks, the writes in flight have an
/// unknown result. Subscriptions and watches are restored.
package final class SimBus: ClusterBus, @unchecked Sendable {
  package var storeTimeout = Span.seconds(2)
  /// Replaces an outgoing message, or drops it: for sabotage.
  package var filterOutgoing: (OutgoingMessage) -> OutgoingMessage? = { $0 }
  /// Replaces an incoming message, or drops it: for sabotage.
  package var filterIncoming: (BusMessage) -> BusMessage? = { $0 }

  static let noResponders = "\u{0}no responders"

  let link: SimLink
  let writes: SimWrites
  private var readCompleteHandlers: [() -> Void] = []
  private var counters = BusStatistics()
  private var watches: [SimWatch] = []
  /// `register` registers a subscription at the server, again after a reconnect.
  private var subscriptions: [(subscription: SimSubscription, register: () -> Void)] = []
  /// Reads that wait for their replies: the action that fails each.
  private var questions: [UInt64: () -> Void] = [:]
  private var lastQuestion: UInt64 = 0

  init(_ link: SimLink) {
    self.link = link
    writes = SimWrites(link)
    link.onReconnect.append { [unowned self] in resume() }
    // A connection keeps its bus until it is closed.
    link.onClose.append { [self] in
      let waiting = questions.sorted { $0.key < $1.key }
      questions.removeAll()
      for question in waiting { question.value() }
    }
    link.node.onDeath { [weak self] in self?.forget() }
  }

  /// The process is dead: lets go of its handlers, which retain the bus.
  private func forget() {
    subscriptions.removeAll()
    for watch in watches { watch.cancel() }
    watches.removeAll()
    readCompleteHandlers.removeAll()
  }

  package var node: SimNode { link.node }
  var nats: SimNATS { link.nats }
  var world: SimWorld { link.node.world }

  package var actorThread: ActorThread? {
    ActorThread(
      executor: node.executor, taskExecutor: node.taskExecutor, timers: node.timers)
  }

  // MARK: Messages

  @discardableResult
  package func publish(_ subject: String, _ bytes: [UInt8], replyTo: String?) -> Bool {
    say(OutgoingMessage(subject: subject, bytes: bytes, replyTo: replyTo))
  }

  @discardableResult
  package func publish(_ messages: [OutgoingMessage]) -> Int {
    messages.reduce(0) { $0 + (say($1) ? 0 : 1) }
  }

  private func say(_ message: OutgoingMessage) -> Bool {
    guard let message = filterOutgoing(message) else { return true }
    // Messages of a dead process are lost.
    if node.state != .dead { for look in nats.observers.published { look(node, message) } }
    counters.messagesOut += 1
    let publisher = link.number
    return link.send { [nats] in nats.route(message, from: publisher) }
  }

  package func subscribe(
    _ subject: String, queue: String?, handler: @escaping @Sendable (BusMessage) -> Void
  ) throws -> any BusSubscription {
    guard SubjectFilter.isValid(subject) else {
      throw BusError.failed("not a subject: '\(subject)'")
    }
    if link.isClosed { throw BusError.closed }
    let id = nats.newID()
    let subscription = SimSubscription { [weak link] in
      link?.send { [weak link] in link?.nats.unsubscribe(subject, id: id) }
    }
    let register: () -> Void = { [weak self] in
      guard let self, !link.isClosed, !subscription.isCancelled else { return }
      nats.subscribe(link, subject, queue: queue, id: id) { [weak self] message in
        if !subscription.isCancelled { self?.hear(message, handler) }
      }
    }
    if node.state == .dead { return subscription }
    if subscriptions.count >= 64 { subscriptions.removeAll { $0.subscription.isCancelled } }
    subscriptions.append((subscription, register))
    if link.isUp { link.send(register) }
    return subscription
  }

  private func hear(_ message: BusMessage, _ handler: (BusMessage) -> Void) {
    guard let message = filterIncoming(message) else { return }
    counters.messagesIn += 1
    handler(message)
    for body in readCompleteHandlers { body() }
  }

  package func onReadComplete(_ handler: @escaping @Sendable () -> Void) {
    if node.state != .dead { readCompleteHandlers.append(handler) }
  }

  // MARK: Requests

  package func request(_ subject: String, _ bytes: [UInt8], timeout: Duration) async throws
    -> BusMessage
  {
    let replies = try await requestMany(subject, bytes, window: timeout, limit: 1)
    guard let reply = replies.first else { throw BusError.timeout }
    return reply
  }

  package func requestMany(_ subject: String, _ bytes: [UInt8], window: Duration, limit: Int)
    async throws -> [BusMessage]
  {
    let replies = Inbox<BusMessage>(capacity: limit, timers: node.timers)
    let inbox = "_INBOX.\(nats.newID())"
    let subscription = try subscribe(inbox) { replies.offer($0) }
    defer { subscription.cancel() }
    let deadline = node.timers.now + window
    publish(subject, bytes, replyTo: inbox)
    var found: [BusMessage] = []
    while found.count < limit {
      let batch = await replies.next(until: deadline)
      if Task.isCancelled { throw CancellationError() }
      if batch.isEmpty { break }
      found += batch
      if found.contains(where: { $0.subject == Self.noResponders }) { throw BusError.noResponders }
    }
    return found
  }

  // MARK: State

  package var statistics: BusStatistics {
    var statistics = counters
    statistics.connected = link.isUp
    statistics.server = "simulated"
    statistics.reconnects = UInt64(link.reconnects)
    statistics.dropped = link.dropped
    return statistics
  }

  package func close() async { link.close() }

  /// Restores subscriptions and watches on a new connection.
  private func resume() {
    nats.forget(subscriptionsOf: link)
    subscriptions.removeAll { $0.subscription.isCancelled }
    for (_, register) in subscriptions { link.send(register) }
    for watch in watches where !watch.isCancelled {
      link.send { [nats] in if !watch.isCancelled { nats.begin(watch, deletions: true) } }
    }
  }

  // MARK: The store

  package func openJournal(_ options: JournalOptions) async throws -> SimJournal {
    try await ask {}
    return SimJournal(self, timeout: options.appendTimeout)
  }

  package func openBucket(_ name: String, _ options: BucketOptions) async throws -> SimBucket {
    try await ask {}
    return SimBucket(self, name: name)
  }

  package func openWorkQueue(_ options: WorkQueueOptions) async throws -> SimWorkQueue {
    try await ask {}
    return SimWorkQueue(self, timeout: options.addTimeout)
  }

  package func openRecords(_ options: RecordOptions) async throws -> SimRecordStream {
    SimRecordStream(self, timeout: options.addTimeout)
  }

  package func openHistories(_ options: HistoryOptions) async throws -> SimHistoryStream {
    SimHistoryStream(self, options)
  }

  package func openAppStream(
    _ kind: AppStreamKind, _ options: AppStreamOptions
  ) async throws -> SimAppStream {
    SimAppStream(self, kind, timeout: options.addTimeout)
  }

  /// Operators' orders are not simulated.
  package func openAudit(_ options: AuditOptions) async throws -> InProcessAuditTrail {
    InProcessAuditTrail()
  }

  func keep(_ watch: SimWatch) {
    if node.state == .dead { return watch.cancel() }
    watches.removeAll { $0.isCancelled }
    watches.append(watch)
  }

  /// Performs something at the server and waits, on the node, for its result.
  /// - Throws: `BusError`, or what `answer` throws.
  func ask<Value: Sendable>(_ answer: @escaping () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      guard !link.isClosed else { return continuation.resume(throwing: BusError.closed) }
      lastQuestion += 1
      let question = lastQuestion
      let timer = world.schedule(after: storeTimeout) { [self] in
        node.fire { [self] in
          if questions.removeValue(forKey: question) != nil {
            continuation.resume(throwing: BusError.timeout)
          }
        }
      }
      questions[question] = { continuation.resume(throwing: BusError.closed) }
      link.send(isWanted: { [self] in questions[question] != nil }) { [self] in
        if nats.strikes("read lost", nats.faults.readLost) { return }
        let result = Result { try answer() }
        link.reply { [self] in
          timer.cancel()
          if questions.removeValue(forKey: question) != nil { continuation.resume(with: result) }
        }
      }
    }
  }
}

final class SimSubscription: BusSubscription, @unchecked Sendable {
  private var onCancel: (() -> Void)?
  init(_ onCancel: @escaping () -> Void) { self.onCancel = onCancel }
  var isCancelled: Bool { onCancel == nil }
  func cancel() { onCancel.take()?() }
}
