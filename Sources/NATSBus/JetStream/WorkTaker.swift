internal import CallBus
internal import CallWire
internal import Synchronization

/// Takes the jobs of a lane: a pull always stands at the server, which hands a job over as soon as it
/// has one.
///
/// A pull lives in the server's memory. When the connection breaks, the consumer moves or is gone, or
/// nothing is heard for a while, the consumer is made again where it is missing, and asked anew.
final class WorkTaker: BusSubscription, ConnectionObserver {
  /// How long a pull stands.
  private static let pullLasts: Duration = .seconds(30)
  private static let heartbeat: Duration = .seconds(5)
  private static let silenceMax: Duration = .seconds(12)
  private static let retryAfter: Duration = .milliseconds(250)

  typealias Completion = @Sendable (Result<Void, any Error>) -> Void

  private struct State {
    var credit: PullCredit
    var subscription: NATSSubscription?
    /// Waits for the first consumer.
    var initial: Completion?
    /// There is a consumer, as far as we know.
    var isReady = false
    /// A question to make the consumer is under way.
    var isMaking = false
    /// Counts connections: answers to what was asked on a former one do not count.
    var generation = 0
    var retryAt: ContinuousClock.Instant?
    var cancelled = false
  }

  private let queue: JetStreamWorkQueue
  private let lane: String
  private let handler: @Sendable (WorkItem) -> Void
  /// Behind it stands the number of a pull.
  private let inboxPrefix: String
  private let state: Mutex<State>

  init(
    _ queue: JetStreamWorkQueue, lane: String, inFlight: Int,
    handler: @escaping @Sendable (WorkItem) -> Void
  ) {
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

  /// `completion` is called when the first pull stands.
  func start(_ completion: @escaping Completion) {
    let length = inboxPrefix.utf8.count
    let subscription = NATSSubscription(
      inboxPrefix + "*", outbox: bus.thread.outbox,
      handler: .inPlace { [weak self] message in
        self?.receive(message, inboxLength: length)
      },
      onNoResponders: { [weak self] in self?.consumerIsGone() })
    let cancelled = state.withLock { state in
      state.initial = completion
      state.subscription = subscription
      return state.cancelled
    }
    guard !cancelled else { return end(.failure(CancellationError())) }
    guard bus.subscribe(subscription) else { return end(.failure(BusError.closed)) }
    bus.thread.observers.withLock { $0.append(self) }
    makeConsumer()
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
    end(.failure(CancellationError()))
  }

  private func end(_ result: Result<Void, any Error>) {
    state.withLock { $0.initial.take() }?(result)
  }

  // MARK: The consumer

  /// The same for all takers of the lane; to make one that exists changes nothing.
  private func makeConsumer() {
    let generation = state.withLock { state -> Int? in
      guard !state.cancelled, !state.isMaking else { return nil }
      state.isMaking = true
      state.retryAt = nil
      return state.generation
    }
    guard let generation else { return }
    let question = """
      {"stream_name":\(JSONWriter.quoted(queue.stream)),"config":{\
      "durable_name":\(JSONWriter.quoted(lane)),"deliver_policy":"all","ack_policy":"explicit",\
      "ack_wait":\(queue.options.settleWithin.nanoseconds),"max_deliver":-1,\
      "filter_subject":\(JSONWriter.quoted(queue.subject(lane))),"replay_policy":"instant",\
      "max_ack_pending":\(queue.options.maxUnsettled),"max_waiting":1024}}
      """
    bus.start(
      JetStreamSubject.api + JetStreamSubject.serve(queue.stream, lane), Array(question.utf8),
      timeout: bus.thread.options.managementTimeout
    ) { [weak self] answer in self?.made(answer, generation) }
  }

  private func made(_ answer: Result<[BusMessage], any Error>, _ generation: Int) {
    guard state.withLock({ $0.generation == generation }) else { return }
    do {
      let reply = try answer.get().first.map(JetStreamAPI.parse)
      _ = try reply?.checked("cannot take jobs from \(queue.stream)")
      state.withLock { state in
        state.isMaking = false
        state.isReady = !state.cancelled
      }
      pull()
      end(.success(()))
    } catch {
      let first = state.withLock { state in
        state.isMaking = false
        state.isReady = false
        state.retryAt = state.cancelled ? nil : .now + Self.retryAfter
        return state.initial.take()
      }
      guard let first else { return }
      cancel()
      first(.failure(error))
    }
  }

  /// A pull was answered with what says that there is no consumer.
  private func consumerIsGone() {
    state.withLock { state in
      guard !state.cancelled else { return }
      state.isReady = false
      state.credit.forgetPull()
      if state.retryAt == nil, !state.isMaking { state.retryAt = .now + Self.retryAfter }
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
    // Refused by a full outbox: asked again at the next look.
    if !asked {
      state.withLock { state in
        state.credit.ended(plan.number)
        if state.retryAt == nil { state.retryAt = now + Self.retryAfter }
      }
    }
  }

  /// A job comes under the subject to which it was published, all else under our question's.
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
    // Not ours any more: the server hands it out again in time.
    guard let item else { return }
    handler(
      WorkItem(
        bytes: message.bytes, attempt: Int(clamping: origin.deliveries)
      ) { [weak self, bus] settlement in
        // After `cancel` as well: what is under way is finished.
        guard let self else { return bus.settle(reply, settlement) }
        settle(item, reply, settlement)
      })
    self.pull()
  }

  /// The server says something of a pull: a heartbeat, or that it is over.
  private func status(
    _ message: borrowing NATSMessage, _ pull: UInt64, _ now: ContinuousClock.Instant
  ) {
    let code = message.header("Status") ?? ""
    let text = message.header("Description") ?? ""
    if code == "100" { return state.withLock { $0.credit.heard(pull, now: now) } }
    state.withLock { $0.credit.ended(pull) }
    switch code {
    case "409" where text.contains("Deleted"): consumerIsGone()
    case "404", "408": self.pull()
    default:
      // A leader that goes, too many pulls, too much that is not settled: not at once.
      state.withLock { state in
        if state.retryAt == nil, !state.cancelled { state.retryAt = now + Self.retryAfter }
      }
    }
  }

  private func settle(_ item: UInt64, _ reply: String, _ settlement: WorkSettlement) {
    let counts = state.withLock { state in
      settlement == .inProgress
        ? state.credit.working(item, now: .now) : state.credit.settled(item)
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
    if retries, makes { makeConsumer() }
    pull()
    return state.withLock { state in
      [state.retryAt, state.credit.deadline].compactMap(\.self).min()
    }
  }

  func disconnected() {
    let first = state.withLock { state in
      state.generation += 1
      state.isMaking = false
      state.isReady = false
      state.retryAt = nil
      state.credit.forgetPull()
      return state.initial.take()
    }
    // Whoever waits for the first consumer hears of it now, not behind the next connection.
    guard let first else { return }
    cancel()
    first(.failure(BusError.notReady("the connection broke")))
  }

  func reconnected() { makeConsumer() }
}

extension NATSBus {
  /// An acknowledgement. It may be lost: the job then comes again.
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
