/// The seam to the message bus. NATSBus implements it over libnats; `InProcessBus` in memory.
///
/// At most once: a message can be lost when a connection breaks, never silently reordered within
/// one publisher and subject.
public protocol MessageBus: Sendable {
  /// Queues a message. Never blocks. False when the bounded outbox is full: the message is dropped
  /// and counted.
  @discardableResult
  func publish(_ subject: String, _ bytes: [UInt8], replyTo: String?) -> Bool

  /// Queues several messages with one wake-up of the writer. Returns how many were dropped.
  @discardableResult
  func publish(_ messages: [OutgoingMessage]) -> Int

  /// Subscribes. `handler` runs on the bus's own thread: it copies, hands over and returns.
  func subscribe(
    _ subject: String, queue: String?, handler: @escaping @Sendable (BusMessage) -> Void
  ) throws -> any BusSubscription

  /// Called on the bus's thread each time it has handed over all that had arrived, so that a
  /// receiver is woken once per burst instead of once per message.
  func onReadComplete(_ handler: @escaping @Sendable () -> Void)

  /// Runs actors on the bus's own thread, between what it reads and what it writes; nil where the bus
  /// offers no such thing. For one actor that does nothing but answer what comes from this bus: its
  /// jobs hold up the bus.
  var executor: (any SerialExecutor)? { get }

  /// What the tasks of such an actor should prefer, so that they wait without leaving the thread.
  var taskExecutor: (any TaskExecutor)? { get }

  /// Timers that run on the bus's own thread, for the same actor: its deadlines then cost no other
  /// thread. nil where the bus offers no such thing.
  var timers: (any Timers)? { get }

  /// Sends and waits for the first reply.
  /// - Throws: `BusError.timeout`, `.noResponders`, `.closed`.
  func request(_ subject: String, _ bytes: [UInt8], timeout: Duration) async throws -> BusMessage

  /// Sends and collects replies until `window` has passed or `limit` have come.
  func requestMany(_ subject: String, _ bytes: [UInt8], window: Duration, limit: Int) async throws
    -> [BusMessage]

  /// What the bus knows of itself.
  var statistics: BusStatistics { get }

  /// Sends what is queued, then closes. Safe to call twice.
  func close() async
}

extension MessageBus {
  public var executor: (any SerialExecutor)? { nil }
  public var taskExecutor: (any TaskExecutor)? { nil }
  public var timers: (any Timers)? { nil }

  @discardableResult
  public func publish(_ subject: String, _ bytes: [UInt8]) -> Bool {
    publish(subject, bytes, replyTo: nil)
  }
  public func subscribe(
    _ subject: String, handler: @escaping @Sendable (BusMessage) -> Void
  ) throws -> any BusSubscription {
    try subscribe(subject, queue: nil, handler: handler)
  }
}

public protocol BusSubscription: Sendable {
  /// No handler call begins after this returns, except one that is under way. Safe to call twice.
  func cancel()
}

public struct OutgoingMessage: Sendable {
  public var subject: String
  public var bytes: [UInt8]
  public var replyTo: String?
  public init(subject: String, bytes: [UInt8], replyTo: String? = nil) {
    self.subject = subject
    self.bytes = bytes
    self.replyTo = replyTo
  }
}

public struct BusMessage: Sendable {
  public var subject: String
  public var replyTo: String?
  public var bytes: [UInt8]
  public init(subject: String, replyTo: String? = nil, bytes: [UInt8]) {
    self.subject = subject
    self.replyTo = replyTo
    self.bytes = bytes
  }
}

public struct BusStatistics: Sendable, Equatable {
  public var connected = false
  public var server = ""
  public var serverVersion = ""
  public var reconnects: UInt64 = 0
  public var messagesIn: UInt64 = 0
  public var messagesOut: UInt64 = 0
  public var bytesIn: UInt64 = 0
  public var bytesOut: UInt64 = 0
  /// Refused by the full outbox, or dropped by a full subscription.
  public var dropped: UInt64 = 0
  public var outboxDepth = 0
  public init() {}
}

public enum BusError: Error, Sendable, Equatable {
  case timeout
  case noResponders
  case closed
  /// A compare-and-set or an append lost: the expected sequence or revision is not the last one.
  case wrongSequence
  /// The store is not there, or not yet: it starts, elects a leader, or was never switched on.
  case notReady(String)
  /// What the server or the library said.
  case failed(String)
}

extension BusError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .timeout: "no answer in time"
    case .noResponders: "nobody listens"
    case .closed: "the bus is closed"
    case .wrongSequence: "another write came first"
    case .notReady(let sentence), .failed(let sentence): sentence
    }
  }
}
