public import CallTelemetry
public import Logging
internal import Synchronization

/// Receives operators' orders and carries them out, one at a time.
///
/// The subject names the operator, and NATS lets no other user publish on it. An order is recorded in the audit trail
/// first; one that cannot be recorded is refused.
public final class OrderDispatcher: Sendable {
  /// Decodes an order of one name; nil if it is not for this node, or not readable.
  public typealias Handler = @Sendable (_ bytes: [UInt8]) -> Action?

  public struct Action: Sendable {
    /// The order's subject, as the audit record names it.
    public var about: String
    /// Returns the answer; nil to answer only that the node has received the order.
    public var perform: @Sendable () async -> [UInt8]?

    public init(about: String, perform: @escaping @Sendable () async -> [UInt8]?) {
      self.about = about
      self.perform = perform
    }
  }

  private struct Order: Sendable {
    var operatorName: String
    var name: String
    var bytes: [UInt8]
    var replyTo: String?
  }

  private let bus: any MessageBus
  private let subjects: Subjects
  private let audit: any AuditTrail
  private let node: String
  private let role: String
  private let handlers: [String: Handler]
  private let logger: Logger
  /// Policy when full: refuse; an operator's request then times out.
  private let orders = Inbox<Order>(capacity: 64)
  private let subscriptions = Mutex<[any BusSubscription]>([])

  /// - Parameter handlers: by the order's name.
  public init(
    bus: any MessageBus, subjects: Subjects, audit: any AuditTrail, node: String, role: String,
    logger: Logger, handlers: [String: Handler]
  ) {
    self.bus = bus
    self.subjects = subjects
    self.audit = audit
    self.node = node
    self.role = role
    self.logger = logger
    self.handlers = handlers
  }

  /// The handlers of a node's `drain` and `resume`.
  public static func draining(
    _ node: String, _ perform: @escaping @Sendable (DrainRequest) async -> Void
  ) -> [String: Handler] {
    var handlers: [String: Handler] = [:]
    for action in DrainRequest.Action.allCases {
      handlers[action.rawValue] = { bytes in
        guard let request = BoundedJSON.decode(DrainRequest.self, bytes), request.node == node,
          request.action == action
        else { return nil }
        let about = request.seconds.map { "\(node) over \($0) s" } ?? node
        return Action(about: about) {
          await perform(request)
          return nil
        }
      }
    }
    return handlers
  }

  /// Subscribes; orders then wait for `run`, which must follow.
  public func listen() {
    subscriptions.withLock { subscriptions in
      guard subscriptions.isEmpty else { return }
      do {
        for name in handlers.keys.sorted() { subscriptions.append(try listen(name)) }
      } catch {
        logger.error("cannot subscribe to operators' orders", metadata: .keys([.error: "\(error)"]))
      }
    }
  }

  public func run() async {
    listen()
    defer {
      for subscription in subscriptions.withLock({ $0 }) { subscription.cancel() }
    }
    while !Task.isCancelled {
      for order in await orders.next(until: nil) { await perform(order) }
    }
  }

  private func listen(_ name: String) throws -> any BusSubscription {
    // <cluster>.orders.<operator>.<name>
    let lead = subjects.orders.utf8.count + 1
    return try bus.subscribe(subjects.order(name, by: "*")) { [orders] message in
      let operatorName = message.subject.dropFirst(lead).prefix { $0 != "." }
      orders.offer(
        Order(
          operatorName: String(operatorName.prefix(64)), name: name, bytes: message.bytes,
          replyTo: message.replyTo))
    }
  }

  private func perform(_ order: Order) async {
    guard let action = handlers[order.name]?(order.bytes) else { return }
    var record = AuditRecord()
    record.atMilliseconds = CalendarTime.nowMilliseconds()
    record.operatorName = order.operatorName
    record.order = order.name
    record.about = action.about
    record.node = node
    record.role = role
    var answer = OrderAnswer(node: node, role: role)
    var bytes: [UInt8]?
    let result = await audit.append(record.bytes)
    if case .appended = result {
      logger.notice(
        "operator's order accepted",
        metadata: .keys([
          .operatorName: "\(record.operatorName)", .order: "\(record.order)",
          .reason: "\(record.about)",
        ]))
      bytes = await action.perform()
    } else {
      logger.error(
        "operator's order refused: its record cannot be stored",
        metadata: .keys([
          .operatorName: "\(record.operatorName)", .order: "\(record.order)", .error: "\(result)",
        ]))
      answer.refused = "the record of the order cannot be stored (\(result))"
    }
    if let replyTo = order.replyTo { bus.publish(replyTo, bytes ?? answer.bytes) }
  }
}
