public import CallTelemetry
public import Logging
internal import Synchronization

/// Where a node hears orders of operators. Who gives one is told by its subject, which NATS lets nobody else
/// use. Nothing is carried out of which there is no record.
public final class OrderDesk: Sendable {
  /// What a node would do with an order; nil where it is not for this node, or cannot be read.
  public typealias Plan = @Sendable (_ bytes: [UInt8]) -> Step?

  public struct Step: Sendable {
    /// What the record says that the order is about.
    public var about: String
    /// Returns the answer; nil: that the node has heard the order.
    public var carryOut: @Sendable () async -> [UInt8]?

    public init(about: String, carryOut: @escaping @Sendable () async -> [UInt8]?) {
      self.about = about
      self.carryOut = carryOut
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
  private let plans: [String: Plan]
  private let logger: Logger
  /// Policy when full: refuse; whoever orders has a timeout.
  private let orders = Inbox<Order>(capacity: 64)
  private let subscriptions = Mutex<[any BusSubscription]>([])

  /// - Parameter plans: by the name of the order.
  public init(
    bus: any MessageBus, subjects: Subjects, audit: any AuditTrail, node: String, role: String,
    logger: Logger, plans: [String: Plan]
  ) {
    self.bus = bus
    self.subjects = subjects
    self.audit = audit
    self.node = node
    self.role = role
    self.logger = logger
    self.plans = plans
  }

  /// The plans for drain and resume of a node.
  public static func draining(
    _ node: String, _ carryOut: @escaping @Sendable (DrainRequest) async -> Void
  ) -> [String: Plan] {
    var plans: [String: Plan] = [:]
    for action in DrainRequest.Action.allCases {
      plans[action.rawValue] = { bytes in
        guard let request = BoundedJSON.decode(DrainRequest.self, bytes), request.node == node,
          request.action == action
        else { return nil }
        let about = request.seconds.map { "\(node) over \($0) s" } ?? node
        return Step(about: about) {
          await carryOut(request)
          return nil
        }
      }
    }
    return plans
  }

  /// From now on orders wait for `run`; whoever calls this calls that.
  public func listen() {
    subscriptions.withLock { subscriptions in
      guard subscriptions.isEmpty else { return }
      do {
        for name in plans.keys.sorted() { subscriptions.append(try listen(name)) }
      } catch {
        logger.error(
          "Operators' orders cannot be heard.", metadata: .keys([.error: "\(error)"]))
      }
    }
  }

  /// Hears orders and carries them out, one after the other, until the task is cancelled.
  public func run() async {
    listen()
    defer {
      for subscription in subscriptions.withLock({ $0 }) { subscription.cancel() }
    }
    while !Task.isCancelled {
      for order in await orders.next(until: nil) { await take(order) }
    }
  }

  private func listen(_ name: String) throws -> any BusSubscription {
    // <cluster>.orders.<operator>.<name>
    let lead = subjects.orders.utf8.count + 1
    return try bus.subscribe(subjects.order(name, by: "*")) { [orders] message in
      let who = message.subject.dropFirst(lead).prefix { $0 != "." }
      orders.offer(
        Order(
          operatorName: String(who.prefix(64)), name: name, bytes: message.bytes,
          replyTo: message.replyTo))
    }
  }

  private func take(_ order: Order) async {
    guard let step = plans[order.name]?(order.bytes) else { return }
    let record = AuditRecord(
      atMilliseconds: CalendarTime.nowMilliseconds(), operatorName: order.operatorName,
      order: order.name, about: step.about, node: node, role: role)
    var answer = OrderAnswer(node: node, role: role)
    var bytes: [UInt8]?
    let result = await audit.append(record.bytes)
    if case .appended = result {
      logger.notice(
        "An operator's order is carried out.",
        metadata: .keys([
          .operatorName: "\(record.operatorName)", .order: "\(record.order)",
          .reason: "\(record.about)",
        ]))
      bytes = await step.carryOut()
    } else {
      logger.error(
        "An operator's order is not carried out: its record cannot be stored.",
        metadata: .keys([
          .operatorName: "\(record.operatorName)", .order: "\(record.order)", .error: "\(result)",
        ]))
      answer.refused = "the record of the order cannot be stored (\(result))"
    }
    if let replyTo = order.replyTo { bus.publish(replyTo, bytes ?? answer.bytes) }
  }
}
