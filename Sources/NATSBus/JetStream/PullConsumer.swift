internal import CallBus
internal import CallWire
internal import Synchronization

/// Consumes a lane through its durable pull consumer. One pull request is always open, so that the server delivers a
/// job as soon as it has one.
///
/// The server keeps pull requests in memory. After a reconnect, when the consumer moves or is gone, or without a
/// heartbeat, the consumer is created if it is missing, and a new pull request is sent.
final class PullConsumer: BusSubscription, ConnectionObserver {
  /// The expiry of a pull request.
  private static let pullLasts: Duration = .seconds(30)
  private static let heartbeat: Duration = .seconds(5)
  private static let silenceMax: Duration = .seconds(12)
  private static let retryAfter: Duration = .milliseconds(250)

  private struct State {
    var credit: PullCredit
    var subscription: NATSSubscription?
    /// Whether `start` waits until the consumer exists.
    var isStarting = true
    /// Whether the consumer exists, as far as known.
    var isReady = false
    /// Whether a request to create the consumer is under way.
    var isCreating = false
    /// Counts connections, so that answers to requests on a former one are ignored.
    var generation = 0
    var retryAt: ContinuousClock.Instant?
    var cancelled = false
  }

  private let queue: JetStreamWorkQueue
  private let lane: String
  private let handler: @Sendable (WorkItem) -> Void
  /// The number of a pull request follows it.
  private let inboxPrefix: String
  private let state: Mutex<State>
  /// The outcome of `start`.
  private let started = Inbox<Result<Void, any Error>>(capacity: 1)

  init(_ queue: JetStreamWorkQueue, lane: String, inFlight: Int, handler: @escaping WorkHandler) {
    self.queue = queue
    self.lane = lane
    self.handler = handler
    inboxPrefix = queue.bus.newInbox() + "."
    state = Mutex(
      State(
        credit: PullCredit(
          inFlight: inFlight, silence: Self.silenceMax,
          settleWithin: queue.options.settleWithin)))
  }

  private var bus: NATSBus { queue.bus }

  /// Returns after the first pull request.
  /// - Throws: `BusError`, `CancellationError`.
  func start() async throws {
    let length = inboxPrefix.utf8.count
    let subscription = NATSSubscription(
      inboxPrefix + "*", outbox: bus.thread.outbox,
      handler: .inPlace { [weak self] message in
        self?.receive(message, inboxLength: length)
      },
      onNoResponders: { [weak self] in self?.consumerIsGone() })
    state.withLock { $0.subscription = subscription }
    guard bus.subscribe(subscription) else { throw BusError.closed }
    bus.thread.observers.withLock { $0.append(self) }
    createConsumer()
    guard let result = await started.next(until: nil).first else {
      cancel()
      throw CancellationError()
    }
    try result.get()
  }

  func cancel() {
    let subscription = state.withLock { state in
      state.cancelled = true
      state.isReady = false
      state.retryAt = nil
      return state.subscription.take()
    }
    subscription?.cancel()
    bus.thread.observers.withLock { $0.removeAll { $0 === self } }
  }

  private func fail(_ error: any Error) {
    cancel()
    started.offer(.failure(error))
  }

  // MARK: The consumer

  /// All gateways create the same consumer; creating an existing one changes nothing.
  private func createConsumer() {
    let begun = state.withLock { state -> (generation: Int, isStarting: Bool)? in
      guard !state.cancelled, !state.isCreating else { return nil }
      state.isCreating = true
      state.retryAt = nil
      return (state.generation, state.isStarting)
    }
    guard let (generation, isStarting) = begun else { return }
    let configuration = """
      {"stream_name":\(JSONWriter.quoted(queue.stream)),"config":{\
      "durable_name":\(JSONWriter.quoted(lane)),"deliver_policy":"all","ack_policy":"explicit",\
      "ack_wait":\(queue.options.settleWithin.nanoseconds),"max_deliver":-1,\
      "filter_subject":\(JSONWriter.quoted(queue.subject(lane))),"replay_policy":"instant",\
      "max_ack_pending":\(queue.options.maxUnsettled),"max_waiting":1024}}
      """
    // Only the leader of all servers answers. A short time finds the next one soon; `start` does not try again.
    queue.api.start(
      JetStreamSubject.serve(queue.stream, lane), configuration,
      timeout: isStarting ? nil : bus.thread.options.consumerTimeout
    ) { [weak self] answer in self?.created(answer, generation) }
  }

  private func created(_ answer: Result<JetStreamAPI.Reply, any Error>, _ generation: Int) {
    guard state.withLock({ $0.generation == generation }) else { return }
    do {
      _ = try answer.get().checked("cannot take jobs from \(queue.stream)")
      state.withLock { state in
        state.isCreating = false
        state.isReady = !state.cancelled
        state.isStarting = false
      }
      pull()
      started.offer(.success(()))
    } catch {
      let isStarting = state.withLock { state in
        state.isCreating = false
        state.isReady = false
        state.retryAt = state.cancelled ? nil : .now + Self.retryAfter
        return state.isStarting
      }
      if isStarting { fail(error) }
    }
  }

  /// The server answered a pull request with the error that there is no consumer.
  private func consumerIsGone() {
    state.withLock { state in
      guard !state.cancelled else { return }
      state.isReady = false
      state.credit.forgetPull()
      if state.retryAt == nil, !state.isCreating { state.retryAt = .now + Self.retryAfter }
    }
  }

  // MARK: Pulling

  private func pull() {
    let now = ContinuousClock.now
    let plan = state.withLock { state in
      state.isReady ? state.credit.pull(now: now, lasts: Self.pullLasts) : nil
    }
    guard let plan else { return }
    let question = """
      {"batch":\(plan.batch),"expires":\(Self.pullLasts.nanoseconds),\
      "idle_heartbeat":\(Self.heartbeat.nanoseconds)}
      """
    let asked = bus.publish(
      JetStreamSubject.api + JetStreamSubject.next(queue.stream, lane), Array(question.utf8),
      replyTo: inboxPrefix + String(plan.number))
    // Refused by a full outbox: retried.
    if !asked {
      state.withLock { state in
        state.credit.ended(plan.number)
        if state.retryAt == nil { state.retryAt = now + Self.retryAfter }
      }
    }
  }

  /// Jobs arrive under the subject to which they were published, statuses under the pull request's reply subject.
  private func receive(_ message: borrowing NATSMessage, inboxLength: Int) {
    let now = ContinuousClock.now
    guard let reply = message.replyTo, let origin = DeliveryOrigin(reply) else {
      let subject = message.subject
      guard subject.hasPrefix(inboxPrefix), let pull = UInt64(subject.dropFirst(inboxLength)) else {
        return
      }
      return status(message, pull, now)
    }
    let item: UInt64? = state.withLock { state in
      state.cancelled ? nil : state.credit.arrived(now: now)
    }
    // Cancelled: the server redelivers the job.
    guard let item else { return }
    handler(
      WorkItem(
        bytes: message.bytes, attempt: Int(clamping: origin.deliveries)
      ) { [weak self, bus] settlement in
        // Also after `cancel`: jobs under way are finished.
        guard let self else { return bus.settle(reply, settlement) }
        settle(item, reply, settlement)
      })
    self.pull()
  }

  /// A status of a pull request: a heartbeat, or its end.
  private func status(
    _ message: borrowing NATSMessage, _ pull: UInt64, _ now: ContinuousClock.Instant
  ) {
    let code = message.header("Status") ?? ""
    let text = message.header("Description") ?? ""
    if code == "100" { return state.withLock { $0.credit.extended(pull, now: now) } }
    state.withLock { $0.credit.ended(pull) }
    switch code {
    case "409" where text.contains("Deleted"): consumerIsGone()
    case "404", "408": self.pull()
    default:
      // A leader that steps down, too many pull requests, too many unsettled jobs: retried after a pause.
      state.withLock { state in
        if state.retryAt == nil, !state.cancelled { state.retryAt = now + Self.retryAfter }
      }
    }
  }

  private func settle(_ item: UInt64, _ reply: String, _ settlement: WorkSettlement) {
    let counts = state.withLock { state in
      settlement == .inProgress
        ? state.credit.inProgress(item, now: .now) : state.credit.settled(item)
    }
    if !counts, settlement != .done { return }
    bus.settle(reply, settlement)
    if settlement != .inProgress { pull() }
  }

  // MARK: The connection

  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
    let (retries, makes) = state.withLock { state in
      state.credit.expire(now: now)
      guard let retryAt = state.retryAt, retryAt <= now else { return (false, false) }
      state.retryAt = nil
      return (true, !state.isReady)
    }
    if retries, makes { createConsumer() }
    pull()
    return state.withLock { state in
      [state.retryAt, state.credit.deadline].compactMap(\.self).min()
    }
  }

  func disconnected() {
    let isStarting = state.withLock { state in
      state.generation += 1
      state.isCreating = false
      state.isReady = false
      state.retryAt = nil
      state.credit.forgetPull()
      return state.isStarting
    }
    // Fails at once, instead of after the reconnect.
    if isStarting { fail(BusError.notReady("the connection broke")) }
  }

  func reconnected() { createConsumer() }
}

extension NATSBus {
  /// Acknowledges a job. If that is lost, the job is redelivered.
  fileprivate func settle(_ reply: String, _ settlement: WorkSettlement) {
    let text =
      switch settlement {
      case .done: "+ACK"
      case .retry(let pause) where pause > .zero: "-NAK {\"delay\":\(pause.nanoseconds)}"
      case .retry: "-NAK"
      case .inProgress: "+WPI"
      }
    publish(reply, Array(text.utf8))
  }
}
