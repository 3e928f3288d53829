internal import CallBus
internal import CallWire
internal import Synchronization

/// Follows the changes of a bucket through a consumer without acknowledgements.
///
/// What such a consumer loses on the way is noticed (its numbers have a gap, its heartbeat stops, the
/// connection was restored) and fetched by a new consumer that starts behind the last change seen. Not
/// noticed is what the server removed before it came to it: a deletion, whose marker goes at once. Where that
/// was the last of the present entries, the heartbeat tells that nothing more comes.
final class BucketWatch: BusSubscription, ConnectionObserver {
  /// Of a consumer that has nothing left to say: of one that lasts, and of one that only lists what is present.
  static let heartbeat: Duration = .seconds(5)
  static let heartbeatOfListing: Duration = .milliseconds(500)
  private static let silenceMax: Duration = .seconds(16)
  private static let retryAfter: Duration = .seconds(1)

  typealias Completion = @Sendable (Result<Void, any Error>) -> Void

  private struct State {
    var subscription: NATSSubscription?
    var consumer: String?
    /// Counts consumers, so that what an earlier one still sends or answers is ignored.
    var generation = 0
    var lastRevision: UInt64 = 0
    /// The number of the consumer's last message.
    var lastDelivered: UInt64 = 0
    /// The consumer's message with which all present entries have come; nil until it is known.
    var initialTarget: UInt64?
    /// Waits for the present entries.
    var initial: Completion?
    var initialDeadline: ContinuousClock.Instant = .now
    /// When a new consumer is made, unless it is heard before.
    var renewal: ContinuousClock.Instant?
    var cancelled = false
  }

  private let bucket: JetStreamBucket
  private let filter: String
  private let heartbeat: Duration
  private let handler: @Sendable (KeyValueEntry) -> Void
  private let state = Mutex(State())

  init(
    _ bucket: JetStreamBucket, filter: String, heartbeat: Duration,
    handler: @escaping @Sendable (KeyValueEntry) -> Void
  ) {
    self.bucket = bucket
    self.filter = filter
    self.heartbeat = heartbeat
    self.handler = handler
  }

  /// `completion` is called when all present entries have been handed over.
  func start(_ completion: @escaping Completion) {
    let cancelled = state.withLock { state in
      state.initial = completion
      state.initialDeadline = .now + JetStreamBucket.initialTimeout
      return state.cancelled
    }
    guard !cancelled else { return finishInitial(.failure(CancellationError())) }
    bucket.bus.thread.observers.withLock { $0.append(self) }
    createConsumer()
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
    finishInitial(.failure(CancellationError()))
  }

  private func finishInitial(_ result: Result<Void, any Error>) {
    state.withLock { $0.initial.take() }?(result)
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
    let question = configuration(inbox: inbox, behind: lastRevision)
    bucket.bus.start(
      JetStreamSubject.api + JetStreamSubject.follow(bucket.stream), Array(question.utf8),
      timeout: bucket.bus.thread.options.consumerTimeout
    ) { [weak self] answer in self?.created(answer, generation) }
  }

  private func configuration(inbox: String, behind revision: UInt64) -> String {
    let policy =
      revision == 0
      ? "\"deliver_policy\":\"last_per_subject\""
      : "\"deliver_policy\":\"by_start_sequence\",\"opt_start_seq\":\(revision + 1)"
    let parts = heartbeat.components
    let nanoseconds = parts.seconds * 1_000_000_000 + parts.attoseconds / 1_000_000_000
    return """
      {"stream_name":\(JSONWriter.quoted(bucket.stream)),"config":{\
      "deliver_subject":\(JSONWriter.quoted(inbox)),\(policy),\
      "filter_subject":\(JSONWriter.quoted(bucket.prefix + filter)),"ack_policy":"none",\
      "max_deliver":1,"replay_policy":"instant","idle_heartbeat":\(nanoseconds),\
      "inactive_threshold":30000000000,"mem_storage":true,"num_replicas":1}}
      """
  }

  private func created(_ answer: Result<[BusMessage], any Error>, _ generation: Int) {
    do {
      let reply = try answer.get().first.map(JetStreamAPI.parse)
      let json = try reply?.checked("cannot watch \(bucket.stream)") ?? .null
      let pending = json["num_pending"]?.unsigned ?? 0
      let delivered = json["delivered"]?["consumer_seq"]?.unsigned ?? 0
      let complete = state.withLock { state in
        guard generation == state.generation else { return false }
        state.consumer = json["name"]?.text
        state.renewal = .now + Self.silenceMax
        state.initialTarget = delivered &+ pending
        return state.lastDelivered >= delivered &+ pending
      }
      if complete { finishInitial(.success(())) }
    } catch {
      let first = state.withLock { state in
        guard generation == state.generation else { return nil as Completion? }
        state.renewal = .now + Self.retryAfter
        return state.initial.take()
      }
      guard let first else { return }
      cancel()
      first(.failure(error))
    }
  }

  // MARK: Messages

  private func receive(_ message: borrowing NATSMessage, _ generation: Int) {
    guard let origin = message.replyTo.flatMap(DeliveryOrigin.init) else {
      heartbeat(last: message.header("Nats-Last-Consumer").flatMap { UInt64($0) }, generation)
      return
    }
    let (isNew, hasGap, complete) = state.withLock { state in
      guard generation == state.generation else { return (false, false, false) }
      state.renewal = .now + Self.silenceMax
      guard origin.consumerSequence == state.lastDelivered + 1 else { return (false, true, false) }
      state.lastDelivered = origin.consumerSequence
      let isNew = origin.streamSequence > state.lastRevision
      if isNew { state.lastRevision = origin.streamSequence }
      let complete = state.initialTarget.map { origin.consumerSequence >= $0 } ?? false
      return (isNew, false, complete)
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
    if complete { finishInitial(.success(())) }
  }

  private func heartbeat(last: UInt64?, _ generation: Int) {
    let mustRenew = state.withLock { state in
      guard generation == state.generation else { return false }
      state.renewal = .now + Self.silenceMax
      guard let last else { return false }
      // Nothing more comes, though there was more: it was removed meanwhile. A new consumer knows what is
      // left (before 2.10.19 the server can also stop in the middle).
      let isShort = state.initial != nil && state.initialTarget != nil
      return last != state.lastDelivered || isShort
    }
    if mustRenew { createConsumer() }
  }

  // MARK: The connection

  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
    let (isLate, mustRenew, next) = state.withLock { state in
      let isLate = state.initial != nil && state.initialDeadline <= now
      let mustRenew = state.renewal.map { $0 <= now } ?? false
      let deadline = state.initial == nil ? state.renewal : state.initialDeadline
      return (isLate, mustRenew, min(state.renewal ?? deadline ?? now, deadline ?? now))
    }
    if isLate {
      finishInitial(.failure(BusError.timeout))
      cancel()
      return nil
    }
    if mustRenew {
      createConsumer()
      return nil
    }
    return next > now ? next : nil
  }

  func disconnected() {
    state.withLock { $0.renewal = nil }
    if bucket.bus.thread.outbox.isClosed { finishInitial(.failure(BusError.closed)) }
  }

  /// A stream that lost its end, or was made anew, counts from lower numbers: then all that is
  /// present is new.
  func reconnected() {
    let timeout = bucket.bus.thread.options.managementTimeout
    let question = JetStreamSubject.api + JetStreamSubject.information(bucket.stream)
    bucket.bus.start(question, [], timeout: timeout) {
      [weak self] answer in
      guard let self else { return }
      let reply = try? answer.get().first.map(JetStreamAPI.parse)
      let last = reply?.json["state"]?["last_seq"]?.unsigned
      state.withLock { state in
        if let last, last < state.lastRevision { state.lastRevision = 0 }
      }
      createConsumer()
    }
  }
}

/// Where a delivered message stood, from its reply address:
/// `$JS.ACK.<stream>.<consumer>.<count>.<stream sequence>.<consumer sequence>.<time>.<pending>`, in
/// newer servers with domain and account behind `ACK`.
package struct DeliveryOrigin: Equatable {
  package var streamSequence: UInt64
  package var consumerSequence: UInt64
  /// How often it was delivered, this time included.
  package var deliveries: UInt64

  package init?(_ reply: String) {
    let parts = reply.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count >= 9, reply.hasPrefix("$JS.ACK.") else { return nil }
    let shift = parts.count >= 11 ? 2 : 0
    guard let deliveries = UInt64(Substring(parts[4 + shift])),
      let stream = UInt64(Substring(parts[5 + shift])),
      let consumer = UInt64(Substring(parts[6 + shift]))
    else { return nil }
    streamSequence = stream
    consumerSequence = consumer
    self.deliveries = deliveries
  }
}
