/// One side of a call as the shard reaches it: its session, and the deliveries that it has not acknowledged.
struct Endpoint: Sendable {
  struct Pending: Sendable {
    var delivery: Delivery
    /// How often it was sent.
    var attempts: Int
    /// When to retransmit it.
    var nextAt: Timestamp
  }

  /// nil: not reachable at present.
  var session: SessionRef?
  /// When the session was attached, by its edge's clock; 0: not known.
  private(set) var attachedAt = Timestamp(microseconds: 0)
  /// In the order in which they were decided.
  private(set) var outbox: [Pending] = []

  init() {}

  /// - Parameter place: the command that placed the call.
  init(place: Command) { begin(by: place) }

  /// Takes the session of the command by which the device got its side.
  mutating func begin(by command: Command) {
    (session, attachedAt) = (command.session, command.attachedAt)
  }

  /// - Returns: whether the device had another session, or none.
  mutating func attach(_ session: SessionRef) -> Bool {
    guard self.session != session else { return false }
    self.session = session
    attachedAt = Timestamp(microseconds: 0)
    return true
  }

  /// Takes the session of a `place`, a `resume`, or a repeated pull or answer, unless the device has begun a later one.
  ///
  /// The clocks of two edges may differ by seconds. So they decide only about the `resume` that an edge sends to a new
  /// owner. What the device itself sends over another edge always counts.
  /// - Returns: as `attach`; nil: the device has a later session.
  mutating func attach(by command: Command) -> Bool? {
    if let session, session != command.session,
      command.request == 0 || session.edge == command.session.edge,
      command.attachedAt != Timestamp(microseconds: 0), command.attachedAt < attachedAt
    {
      return nil
    }
    let isNew = attach(command.session)
    attachedAt = command.attachedAt
    return isNew
  }

  /// When the next retransmission is due.
  var nextRetransmission: Timestamp {
    guard session != nil else { return .distantFuture }
    var next = Timestamp.distantFuture
    for pending in outbox where pending.nextAt < next { next = pending.nextAt }
    return next
  }

  /// Keeps a delivery until it is acknowledged, and sends it if there is a session.
  mutating func deliver(_ delivery: Delivery, _ turn: inout Turn) {
    if !outbox.isEmpty, delivery.event.voidsRingsUntil {
      outbox.removeAll { $0.delivery.event.isRingsUntil }
    }
    outbox.append(
      Pending(
        delivery: delivery, attempts: 1,
        nextAt: turn.now + (turn.limits.deliveryRepeats.first ?? .seconds(1))))
    if let session { send(outbox.count - 1, to: session, &turn) }
  }

  /// Sends a delivery that names the one before it, since the bus may lose that one and not this one. It never names a
  /// `ringsUntil`, because edges of earlier versions do not pass these on.
  private func send(_ index: Int, to session: SessionRef, _ turn: inout Turn) {
    var delivery = outbox[index].delivery
    let before = outbox[..<index].last { !$0.delivery.event.isRingsUntil }
    delivery.after = before?.delivery.version ?? 0
    turn.outcome.effects.append(.deliver(session, delivery))
  }

  /// Keeps a delivery without sending it, as a replay does.
  mutating func keep(_ delivery: Delivery) {
    outbox.append(Pending(delivery: delivery, attempts: 0, nextAt: .distantFuture))
  }

  /// Keeps the news of the other side's newest move, in place of the news of an earlier one.
  mutating func replaceMoved(by delivery: Delivery) {
    outbox.removeAll { if case .moved = $0.delivery.event { true } else { false } }
    keep(delivery)
  }

  /// Keeps the news of the newest transfer, in place of earlier news.
  mutating func replaceTransfer(by delivery: Delivery) {
    outbox.removeAll { if case .transfer = $0.delivery.event { true } else { false } }
    keep(delivery)
  }

  /// Sends the deliveries that were kept without being sent.
  mutating func sendKept(_ turn: inout Turn) {
    guard let session else { return }
    for index in outbox.indices where outbox[index].attempts == 0 {
      send(index, to: session, &turn)
      schedule(index, turn)
    }
  }

  /// Drops all deliveries, which no longer matter.
  mutating func clear() { outbox.removeAll() }

  /// Drops the deliveries and returns them.
  mutating func drain() -> [Delivery] {
    defer { clear() }
    return outbox.map(\.delivery)
  }

  /// - Returns: the acknowledged event; nil: no delivery of that version waits.
  mutating func acknowledge(_ version: UInt64) -> Delivery.Event? {
    guard let index = outbox.firstIndex(where: { $0.delivery.version == version }) else {
      return nil
    }
    return outbox.remove(at: index).delivery.event
  }

  /// Drops the invite, which any command of the device about the call acknowledges. Such a command may be older than an
  /// invite to a call to which the device's own call gave way.
  /// - Returns: the descriptions and candidates in the invite.
  mutating func acknowledgeInvite() -> [Signal] {
    var signals: [Signal] = []
    outbox.removeAll {
      guard case .invite(let invite) = $0.delivery.event, invite.merged == nil else {
        return false
      }
      signals = invite.signals
      return true
    }
    return signals
  }

  /// Retransmits the deliveries that are due.
  /// - Returns: how many were.
  mutating func retransmitDue(_ turn: inout Turn) -> Int {
    guard let session else { return 0 }
    var count = 0
    for index in outbox.indices where outbox[index].nextAt <= turn.now {
      guard !turn.isHeldBack else {
        outbox[index].nextAt = turn.now + (turn.limits.deliveryRepeats.first ?? .seconds(1))
        continue
      }
      send(index, to: session, &turn)
      schedule(index, turn)
      count += 1
    }
    return count
  }

  /// Sends everything, as a first attempt, because a session begins.
  mutating func retransmitAll(_ turn: inout Turn) {
    guard let session else { return }
    for index in outbox.indices {
      outbox[index].attempts = 0
      send(index, to: session, &turn)
      schedule(index, turn)
    }
  }

  /// Sends once more the deliveries whose attempts are exhausted, because the device is known to be attached as before.
  /// Its edge may have been stalled for longer than the attempts take.
  func retransmitExhausted(_ turn: inout Turn) {
    guard let session else { return }
    for index in outbox.indices
    where outbox[index].attempts > 0 && outbox[index].nextAt == .distantFuture {
      send(index, to: session, &turn)
    }
  }

  /// Schedules the next attempt. After the last one the delivery waits until the device is known to be attached.
  private mutating func schedule(_ index: Int, _ turn: borrowing Turn) {
    let repeats = turn.limits.deliveryRepeats
    let attempts = outbox[index].attempts
    outbox[index].attempts += 1
    outbox[index].nextAt =
      attempts < repeats.count ? turn.now + repeats[attempts] : .distantFuture
  }
}
