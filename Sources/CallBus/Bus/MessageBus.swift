package import CallTelemetry

/// A publish-subscribe message bus. `NATSBus` implements it over libnats, `InProcessBus` in memory.
///
/// Delivers at most once: a message is lost if a connection breaks. Messages of one publisher on one subject are never
/// reordered.
public protocol MessageBus: Sendable {
  /// Queues a message. Never blocks. Returns false if the outbox is full; the message is then dropped and counted.
  @discardableResult
  func publish(_ subject: String, _ bytes: [UInt8], replyTo: String?) -> Bool

  /// Queues several messages and wakes the writer once. Returns how many were dropped.
  @discardableResult
  func publish(_ messages: [OutgoingMessage]) -> Int

  /// Subscribes. `handler` runs on the bus's thread and must not block.
  /// - Throws: `BusError.closed`, or `.failed` if the subject is not valid.
  func subscribe(
    _ subject: String, queue: String?, handler: @escaping MessageHandler
  ) throws -> any BusSubscription

  /// Registers a handler that runs on the bus's thread after all messages that had arrived are delivered, so that a
  /// receiver is woken once per burst instead of once per message.
  func onReadComplete(_ handler: @escaping @Sendable () -> Void)

  /// The bus's thread, which runs an actor's jobs between reading and writing; nil if the bus has none. For an actor
  /// that does nothing but handle this bus's messages, since its jobs block the bus.
  var actorThread: ActorThread? { get }

  /// Sends a request and waits for the first reply.
  /// - Throws: `BusError.timeout`, `.noResponders`, `.closed`.
  func request(_ subject: String, _ bytes: [UInt8], timeout: Duration) async throws -> BusMessage

  /// Sends a request and collects replies until `window` has passed or there are `limit`.
  /// - Throws: `BusError.noResponders`, `.closed`.
  func requestMany(_ subject: String, _ bytes: [UInt8], window: Duration, limit: Int) async throws
    -> [BusMessage]

  var statistics: BusStatistics { get }

  /// Sends what is queued, then closes. May be called twice.
  func close() async
}

extension MessageBus {
  public var actorThread: ActorThread? { nil }

  @discardableResult
  public func publish(_ subject: String, _ bytes: [UInt8]) -> Bool {
    publish(subject, bytes, replyTo: nil)
  }
  public func subscribe(
    _ subject: String, handler: @escaping MessageHandler
  ) throws -> any BusSubscription {
    try subscribe(subject, queue: nil, handler: handler)
  }

  /// Answers each message on a subject with JSON.
  package func answer<Body: Encodable & SendableMetatype>(
    _ subject: String, _ body: @escaping @Sendable () -> Body
  ) throws -> any BusSubscription {
    try subscribe(subject) { [self] message in
      guard let replyTo = message.replyTo, let json = body().jsonBytes else { return }
      publish(replyTo, json)
    }
  }
}

public typealias MessageHandler = @Sendable (BusMessage) -> Void

public protocol BusSubscription: Sendable {
  /// No further handler call begins after this returns. May be called twice.
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
  /// Messages refused by the full outbox, or dropped by a full subscription.
  public var dropped: UInt64 = 0
  public var outboxDepth = 0
  public init() {}
}

extension NodeStatus {
  /// The status of a node of this process, as yet without the part of its role.
  package init(
    node: String, role: String, state: String, version: String, shardCount: Int,
    _ statistics: BusStatistics
  ) {
    self.init(node: node, role: role, state: state, version: version, shardCount: shardCount)
    bus.connected = statistics.connected
    bus.server = statistics.server
    bus.serverVersion = statistics.serverVersion
    bus.reconnects = statistics.reconnects
    bus.messagesIn = statistics.messagesIn
    bus.messagesOut = statistics.messagesOut
    bus.dropped = statistics.dropped
  }
}
