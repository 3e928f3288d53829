internal import CallBus
internal import Synchronization

/// A subscription as the rest of the program holds it. The library's side of it lives and dies on
/// the connection's thread.
final class NATSSubscription: BusSubscription {
  enum Handler: Sendable {
    case copies(@Sendable (BusMessage) -> Void)
    /// Reads the message where it is.
    case inPlace(@Sendable (borrowing NATSMessage) -> Void)
  }

  let subject: String
  let queue: String?
  /// The subject of every message that comes; nil when the subscription has wildcards.
  let exactSubject: String?
  let handler: Handler
  /// Nobody listens to what was sent with a reply address of this subscription. The library tells
  /// that without telling which.
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
