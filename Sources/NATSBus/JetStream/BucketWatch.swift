internal import CallBus
internal import CallWire
internal import Synchronization

/// Watches a bucket through an ephemeral push consumer without acknowledgements.
///
/// A lost message is detected (a gap in the consumer's sequence, a missing heartbeat, a reconnect) and fetched by a new
/// consumer that starts after the last change seen. Not detected is a message that the server removed before delivering
/// it: a deletion, whose marker is removed at once. If that was the last of the present entries, the heartbeat shows
/// that nothing more follows.
final class BucketWatch: BusSubscription, ConnectionObserver {
  /// The idle heartbeat of a watch, and of a consumer that only lists the present entries.
  static let heartbeat: Duration = .seconds(5)
  static let heartbeatOfListing: Duration = .milliseconds(500)
  private static let silenceMax: Duration = .seconds(16)
  private static let retryAfter: Duration = .seconds(1)

  private struct State {
    var subscription: NATSSubscription?
    var consumer: String?
    /// Counts consumers, so that messages and answers of an earlier one are ignored.
    var generation = 0
    var lastRevision: UInt64 = 0
    /// The number of the consumer's last message.
    var lastDelivered: UInt64 = 0
    /// The consumer sequence of the last present entry; nil until it is known.
    var initialTarget: UInt64?
    /// Whether `start` waits for the present entries.
    var isStarting = true
    /// When to create a new consumer, unless a message arrives before.
    var renewal: ContinuousClock.Instant?
    var cancelled = false
  }

  private let bucket: JetStreamBucket
  private let filter: String
  private let heartbeat: Duration
  private let handler: @Sendable (KeyValueEntry) -> Void
  private let state = Mutex(State())
  /// The outcome of `start`.
  private let started = Inbox<Result<Void, any Error>>(capacity: 1)

  init(
    _ bucket: JetStreamBucket, filter: String, heartbeat: Duration,
    handler: @escaping EntryHandler
  ) {
    self.bucket = bucket
    self.filter = filter
    self.heartbeat = heartbeat
    self.handler = handler
  }

  /// Returns after all present entries.
  /// - Throws: `BusError`, `CancellationError`.
  func start() async throws {
    bucket.bus.thread.observers.withLock { $0.append(self) }
    createConsumer()
    let deadline = ContinuousClock.now + JetStreamBucket.initialTimeout
    guard let result = await started.next(until: deadline).first else {
      cancel()
      throw Task.isCancelled ? CancellationError() : BusError.timeout
    }
    try result.get()
  }

  func cancel() {
    let (subscription, consumer) = state.withLock { state in
      state.cancelled = true
      state.generation += 1
      return (state.subscription.take(), state.consumer.take())
    }
    subscription?.cancel()
    if let consumer {
      bucket.bus.publish(
        JetStreamSubject.api + JetStreamSubject.unfollow(bucket.stream, consumer), [])
    }
    bucket.bus.thread.observers.withLock { $0.removeAll { $0 === self } }
  }

  /// All present entries were handled.
  private func complete() {
    state.withLock { $0.isStarting = false }
    started.offer(.success(()))
  }

  // MARK: The consumer

  private func createConsumer() {
    let inbox = bucket.bus.newInbox()
    let plan = state.withLock { state -> (Int, UInt64, NATSSubscription?)? in
      guard !state.cancelled else { return nil }
      state.generation += 1
      state.lastDelivered = 0
      state.initialTarget = nil
      state.renewal = nil
      state.consumer = nil
      return (state.generation, state.lastRevision, state.subscription.take())
    }
    guard let (generation, lastRevision, former) = plan else { return }
    former?.cancel()
    let subscription = NATSSubscription(
      inbox, outbox: bucket.bus.thread.outbox,
      handler: .inPlace { [weak self] message in self?.receive(message, generation) })
    bucket.bus.subscribe(subscription)
    state.withLock { $0.subscription = subscription }
    bucket.api.start(
      JetStreamSubject.follow(bucket.stream), configuration(inbox: inbox, after: lastRevision),
      timeout: bucket.bus.thread.options.consumerTimeout
    ) { [weak self] answer in self?.created(answer, generation) }
  }

  private func configuration(inbox: String, after revision: UInt64) -> String {
    let policy =
      revision == 0
      ? "\"deliver_policy\":\"last_per_subject\""
      : "\"deliver_policy\":\"by_start_sequence\",\"opt_start_seq\":\(revision + 1)"
    return """
      {"stream_name":\(JSONWriter.quoted(bucket.stream)),"config":{\
      "deliver_subject":\(JSONWriter.quoted(inbox)),\(policy),\
      "filter_subject":\(JSONWriter.quoted(bucket.prefix + filter)),"ack_policy":"none",\
      "max_deliver":1,"replay_policy":"instant","idle_heartbeat":\(heartbeat.nanoseconds),\
      "inactive_threshold":30000000000,"mem_storage":true,"num_replicas":1}}
      """
  }

  private func created(_ answer: Result<JetStreamAPI.Reply, any Error>, _ generation: Int) {
    do {
      let json = try answer.get().checked("cannot watch \(bucket.stream)")
      let pending = json["num_pending"]?.unsigned ?? 0
      let delivered = json["delivered"]?["consumer_seq"]?.unsigned ?? 0
      let isComplete = state.withLock { state in
        guard generation == state.generation else { return false }
        state.consumer = json["name"]?.text
        state.renewal = .now + Self.silenceMax
        state.initialTarget = delivered &+ pending
        return state.lastDelivered >= delivered &+ pending
      }
      if isComplete { complete() }
    } catch {
      let isStarting = state.withLock { state in
        guard generation == state.generation else { return false }
        state.renewal = .now + Self.retryAfter
        return state.isStarting
      }
      guard isStarting else { return }
      cancel()
      started.offer(.failure(error))
    }
  }

  // MARK: Messages

  private func receive(_ message: borrowing NATSMessage, _ generation: Int) {
    guard let origin = message.replyTo.flatMap(DeliveryOrigin.init) else {
      heartbeat(last: message.header("Nats-Last-Consumer").flatMap { UInt64($0) }, generation)
      return
    }
    let (isNew, hasGap, isComplete) = state.withLock { state in
      guard generation == state.generation else { return (false, false, false) }
      state.renewal = .now + Self.silenceMax
      guard origin.consumerSequence == state.lastDelivered + 1 else { return (false, true, false) }
      state.lastDelivered = origin.consumerSequence
      let isNew = origin.streamSequence > state.lastRevision
      if isNew { state.lastRevision = origin.streamSequence }
      let isComplete = state.initialTarget.map { origin.consumerSequence >= $0 } ?? false
      return (isNew, false, isComplete)
    }
    if hasGap { return createConsumer() }
    if isNew {
      let operation = message.header("KV-Operation")
      let isDeletion = operation == "DEL" || operation == "PURGE"
      handler(
        KeyValueEntry(
          key: String(message.subject.dropFirst(bucket.prefix.count)),
          value: isDeletion ? nil : message.bytes,
          revision: origin.streamSequence))
    }
    if isComplete { complete() }
  }

  private func heartbeat(last: UInt64?, _ generation: Int) {
    let mustRenew = state.withLock { state in
      guard generation == state.generation else { return false }
      state.renewal = .now + Self.silenceMax
      guard let last else { return false }
      // Nothing more follows although entries are missing: they were removed meanwhile. A new consumer delivers what is
      // left (before 2.10.19 the server can also stop in the middle).
      let isShort = state.isStarting && state.initialTarget != nil
      return last != state.lastDelivered || isShort
    }
    if mustRenew { createConsumer() }
  }

  // MARK: The connection

  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
    guard let renewal = state.withLock({ $0.renewal }) else { return nil }
    if renewal > now { return renewal }
    createConsumer()
    return nil
  }

  func disconnected() {
    state.withLock { $0.renewal = nil }
    if bucket.bus.thread.outbox.isClosed { started.offer(.failure(BusError.closed)) }
  }

  /// A stream that lost its end, or was created again, continues from lower sequences: all of its content is then new.
  func reconnected() {
    bucket.api.start(JetStreamSubject.information(bucket.stream), "") { [weak self] answer in
      guard let self else { return }
      let last = (try? answer.get())?.json["state"]?["last_seq"]?.unsigned
      state.withLock { state in
        if let last, last < state.lastRevision { state.lastRevision = 0 }
      }
      createConsumer()
    }
  }
}
