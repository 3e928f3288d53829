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
      // The library does not say which write it was; that none of them is known to be stored is true of all.
      onNoResponders: { writes.endAll("no stream takes the message; is JetStream up?") })
    bus.subscribe(subscription)
    bus.thread.observers.withLock { $0.append(self) }
  }

  func write(
    _ subject: String, _ bytes: [UInt8], expecting: UInt64?, isDeletion: Bool = false,
    messageID: String? = nil, completion: @escaping StreamWrites.Completion
  ) {
    guard let token = writes.begin(completion) else {
      fail("too many writes wait", completion)
      return
    }
    let write = StreamWrite(
      table: writes, token: token, subject: subject, bytes: bytes, expecting: expecting,
      isDeletion: isDeletion, messageID: messageID)
    guard !bus.thread.outbox.offer(.write(write)) else { return }
    let text = bus.thread.outbox.isClosed ? "the bus is closed" : "the outbox is full"
    fail(text) { [writes] in writes.end(token, $0) }
  }

  func write(_ subject: String, _ bytes: [UInt8], expecting: UInt64?) async -> AppendResult {
    await withCheckedContinuation { continuation in
      write(subject, bytes, expecting: expecting) { continuation.resume(returning: $0) }
    }
  }

  /// Completes a write that was not sent: on the bus's thread, unless that has ended.
  func fail(_ text: String, _ completion: @escaping StreamWrites.Completion) {
    let taken = bus.thread.outbox.run { _ in completion(.unknown(text)) }
    if !taken { completion(.unknown(text)) }
  }

  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant? { writes.expire(now: now) }
  func disconnected() { writes.endAll("the connection broke") }
  func reconnected() {}
}
