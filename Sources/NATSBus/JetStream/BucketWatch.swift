internal import CallBus
internal import CallWire
internal import Synchronization

/// Watches a bucket through an ephemeral push consumer without acknowledgements.
///
/// A lost message is detected (a gap in the consumer's sequence, a missing heartbeat, a reconnect) and fetched by a new
/// consumer that starts after the last change seen. Not detected is a message that the server removed before delivering
/// it: a deletion, whose marker is removed at once.
///
/// A consumer may also skip entries that are there, and count none of them. nats-server 2.9.10 moves each consumer to
/// the end of the stream whose filter matches a key that is purged, and so each deletion does. The stream itself is
/// therefore asked for an entry after the last one seen: before the present entries are complete, and at each heartbeat.
/// An entry that the consumer has passed is fetched by a new one. So is an entry that it still has not delivered at the
/// next heartbeat: then the consumer, or the replica where it runs, has stopped, which a heartbeat does not show. Where a
/// change comes that does not follow the one before, a new consumer fetches what may lie between them, once per change. The
/// first messages of a consumer, for entries that were there when it was created, lie apart where others were overwritten;
/// an entry that is skipped among them is missed.
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
    /// The stream had no undelivered entry up to this sequence.
    var verified: UInt64 = 0
    var isVerifying = false
    /// `lastRevision` at the last heartbeat, if the stream had a later entry that the consumer had not come to.
    var revisionWhenBehind: UInt64?
    /// Changes behind a gap: they were handled, and a new consumer delivers them once more.
    var ahead: Set<UInt64> = []
    /// The number of the consumer's last message.
    var lastDelivered: UInt64 = 0
    /// The consumer sequence of the last present entry; nil until it is known.
    var initialTarget: UInt64?
    /// Whether `start` waits for the present entries.
    var isStarting = true
    /// When to create a new consumer, unless a message arrives before.
    var renewal: ContinuousClock.Instant?
    var cancelled = false

    /// Changes up to here need no second look: those behind a gap that were overwritten meanwhile do not come again.
    mutating func saw(_ sequence: UInt64) {
      lastRevision = max(lastRevision, sequence)
      if !ahead.isEmpty { ahead = ahead.filter { $0 > lastRevision } }
    }

    /// - Returns: whether the watch still starts.
    mutating func gaveUpVerifying(_ generation: Int) -> Bool {
      guard generation == self.generation else { return false }
      isVerifying = false
      return isStarting
    }

    /// Whether entries may lie between the last one seen and a message for a later change.
    func mayHaveSkipped(before origin: DeliveryOrigin) -> Bool {
      guard !isStarting, let initialTarget, origin.consumerSequence > initialTarget else {
        return false
      }
      return origin.streamSequence > max(lastRevision, verified) + 1
    }
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
    unfollow(consumer)
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
    let plan = state.withLock { state -> (Int, UInt64, NATSSubscription?, String?)? in
      guard !state.cancelled else { return nil }
      state.generation += 1
      state.lastDelivered = 0
      state.isVerifying = false
      state.revisionWhenBehind = nil
      state.initialTarget = nil
      state.renewal = nil
      return (
        state.generation, state.lastRevision, state.subscription.take(), state.consumer.take()
      )
    }
    guard let (generation, lastRevision, former, formerConsumer) = plan else { return }
    former?.cancel()
    unfollow(formerConsumer)
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

  private func unfollow(_ consumer: String?) {
    guard let consumer else { return }
    bucket.bus.publish(
      JetStreamSubject.api + JetStreamSubject.unfollow(bucket.stream, consumer), [])
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
        return state.isStarting && state.lastDelivered >= delivered &+ pending
      }
      if isComplete { verify(generation) }
    } catch {
      failed(error, generation)
    }
  }

  private func failed(_ error: any Error, _ generation: Int) {
    let isStarting = state.withLock { state in
      guard generation == state.generation else { return false }
      state.renewal = .now + Self.retryAfter
      return state.isStarting
    }
    guard isStarting else { return }
    cancel()
    started.offer(.failure(error))
  }

  // MARK: Skipped entries

  /// Asks the stream for the first entry after the last one seen.
  /// - Parameter position: the sequence up to which the consumer says that it has delivered everything.
  private func verify(_ generation: Int, through position: UInt64 = 0) {
    let next = state.withLock { state -> UInt64? in
      guard generation == state.generation, !state.isVerifying else { return nil }
      state.isVerifying = true
      return state.lastRevision + 1
    }
    guard let next else { return }
    bucket.api.start(
      JetStreamSubject.message(bucket.stream),
      JetStreamAPI.next(subject: bucket.prefix + filter, from: next),
      timeout: bucket.bus.thread.options.readTimeout
    ) { [weak self] answer in self?.verified(answer, generation, through: position) }
  }

  private enum Finding { case nothing, complete, skipped, delivered }

  private func verified(
    _ answer: Result<JetStreamAPI.Reply, any Error>, _ generation: Int, through position: UInt64
  ) {
    let found: UInt64?
    do {
      found = try JetStreamAPI.storedMessage(try answer.get(), bucket.stream)?.sequence
    } catch {
      // The stream may have no leader for a while. A watch that runs asks again at the next heartbeat.
      guard state.withLock({ $0.gaveUpVerifying(generation) }) else { return }
      return failed(error, generation)
    }
    let finding = state.withLock { state -> Finding in
      guard generation == state.generation else { return .nothing }
      state.isVerifying = false
      if let found, found <= state.lastRevision { return state.isStarting ? .delivered : .nothing }
      if let found,
        state.isStarting || found <= position || state.revisionWhenBehind == state.lastRevision
      {
        return .skipped
      }
      state.revisionWhenBehind = found == nil ? nil : state.lastRevision
      state.verified = max(state.verified, position)
      return state.isStarting ? .complete : .nothing
    }
    switch finding {
    case .nothing: break
    case .complete: complete()
    case .skipped: createConsumer()
    // It came in the meantime, and perhaps others after it.
    case .delivered: verify(generation)
    }
  }

  // MARK: Messages

  private func receive(_ message: borrowing NATSMessage, _ generation: Int) {
    guard let origin = message.replyTo.flatMap(DeliveryOrigin.init) else {
      heartbeat(
        last: message.header("Nats-Last-Consumer").flatMap { UInt64($0) },
        position: message.header("Nats-Last-Stream").flatMap { UInt64($0) }, generation)
      return
    }
    let (isNew, hasGap, isComplete) = state.withLock { state in
      guard generation == state.generation else { return (false, false, false) }
      state.renewal = .now + Self.silenceMax
      guard origin.consumerSequence == state.lastDelivered + 1 else { return (false, true, false) }
      state.lastDelivered = origin.consumerSequence
      let sequence = origin.streamSequence
      if state.mayHaveSkipped(before: origin), state.ahead.insert(sequence).inserted {
        return (true, true, false)
      }
      let isNew = sequence > state.lastRevision && !state.ahead.contains(sequence)
      state.saw(sequence)
      let target = state.isStarting ? state.initialTarget : nil
      let isComplete = target.map { origin.consumerSequence >= $0 } ?? false
      return (isNew, false, isComplete)
    }
    if isNew {
      let operation = message.header("KV-Operation")
      let isDeletion = operation == "DEL" || operation == "PURGE"
      handler(
        KeyValueEntry(
          key: String(message.subject.dropFirst(bucket.prefix.count)),
          value: isDeletion ? nil : message.bytes,
          revision: origin.streamSequence))
    }
    if hasGap { return createConsumer() }
    if isComplete { verify(generation) }
  }

  /// - Parameters:
  ///   - last: the number of the consumer's last message.
  ///   - position: the sequence in the stream up to which the consumer has come.
  private func heartbeat(last: UInt64?, position: UInt64?, _ generation: Int) {
    let (mustRenew, mustVerify) = state.withLock { state in
      guard generation == state.generation else { return (false, false) }
      state.renewal = .now + Self.silenceMax
      guard let last else { return (false, false) }
      // While the watch starts: nothing more follows of the present entries, so those that are missing were removed
      // meanwhile, or skipped.
      return (last != state.lastDelivered, !state.isStarting || state.initialTarget != nil)
    }
    if mustRenew { return createConsumer() }
    if mustVerify { verify(generation, through: position ?? 0) }
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
        guard let last else { return }
        state.ahead = []
        state.verified = min(state.verified, last)
        if last < state.lastRevision { (state.lastRevision, state.verified) = (0, 0) }
      }
      createConsumer()
    }
  }
}
