internal import CallBus
internal import Synchronization

/// A subscription as the rest of the program holds it. The connection's thread owns the library's part of it.
final class NATSSubscription: BusSubscription {
  enum Handler: Sendable {
    case copies(@Sendable (BusMessage) -> Void)
    /// Reads the message in place.
    case inPlace(@Sendable (borrowing NATSMessage) -> Void)
  }

  let subject: String
  let queue: String?
  /// The subject of all messages; nil if the subscription has wildcards.
  let exactSubject: String?
  let handler: Handler
  /// Called if a message that was sent with a reply address of this subscription has no subscriber. The library does
  /// not report which message it was.
  let onNoResponders: (@Sendable () -> Void)?
  private let outbox: Outbox
  private let cancelled = Atomic(false)

  init(
    _ subject: String, queue: String? = nil, outbox: Outbox, handler: Handler,
    onNoResponders: (@Sendable () -> Void)? = nil
  ) {
    self.subject = subject
    self.queue = queue
    self.outbox = outbox
    self.handler = handler
    self.onNoResponders = onNoResponders
    let hasWildcard = subject.utf8.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: ">") }
    exactSubject = hasWildcard ? nil : subject
  }

  var isCancelled: Bool { cancelled.load(ordering: .acquiring) }

  func cancel() {
    guard !cancelled.exchange(true, ordering: .acquiringAndReleasing) else { return }
    outbox.run { $0.unsubscribe(self) }
  }

  func handle(_ message: consuming NATSMessage) {
    guard !isCancelled else { return }
    switch handler {
    case .copies(let handler): handler(message.copy(subject: exactSubject))
    case .inPlace(let handler): handler(message)
    }
  }
}

/// Observes a connection. All calls come on the connection's thread.
protocol ConnectionObserver: AnyObject, Sendable {
  /// Handles what is due. Returns the next deadline.
  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant?
  /// The connection broke: what was sent may or may not have arrived.
  func disconnected()
  /// There is a connection again, and all subscriptions are made.
  func reconnected()
}
