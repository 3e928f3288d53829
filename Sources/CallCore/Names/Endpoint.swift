/// One side of a call as the shard reaches it: its session, and what it has not acknowledged.
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
  /// In the order in which they were decided.
  private(set) var outbox: [Pending] = []

  init(session: SessionRef? = nil) { self.session = session }

  /// When the next repetition is due.
  var nextRepeat: Timestamp {
    guard session != nil else { return .distantFuture }
    var next = Timestamp.distantFuture
    for pending in outbox where pending.nextAt < next { next = pending.nextAt }
    return next
  }

  var isSettled: Bool { outbox.isEmpty }

  /// Keeps a delivery until it is acknowledged, and sends it if there is a session.
  mutating func deliver(_ delivery: Delivery, _ context: CallContext, into outcome: inout Outcome) {
    outbox.append(
      Pending(
        delivery: delivery, attempts: 1,
        nextAt: context.now + (context.limits.deliveryRepeats.first ?? .seconds(1))))
    if let session { send(outbox.count - 1, to: session, into: &outcome) }
  }

  /// With the delivery that comes first: the bus may lose that one and not this one.
  private func send(_ index: Int, to session: SessionRef, into outcome: inout Outcome) {
    var delivery = outbox[index].delivery
    delivery.after = index > 0 ? outbox[index - 1].delivery.version : 0
    outcome.effects.append(.deliver(session, delivery))
  }

  /// Keeps a delivery without sending it: what replay does.
  mutating func keep(_ delivery: Delivery) {
    outbox.append(Pending(delivery: delivery, attempts: 0, nextAt: .distantFuture))
  }

  /// Sends what `keep` took in.
  mutating func sendKept(_ context: CallContext, into outcome: inout Outcome) {
    guard let session else { return }
    for index in outbox.indices where outbox[index].attempts == 0 {
      send(index, to: session, into: &outcome)
      schedule(index, context)
    }
  }

  /// What was to be said no longer matters.
  mutating func clear() { outbox.removeAll() }

  /// Returns what was acknowledged; nil when it was not waited for.
  mutating func acknowledge(_ version: UInt64) -> Delivery.Event? {
    guard let index = outbox.firstIndex(where: { $0.delivery.version == version }) else {
      return nil
    }
    return outbox.remove(at: index).delivery.event
  }

  /// An invite counts as acknowledged by whatever the device says of the call.
  /// - Returns: the candidates in it.
  mutating func acknowledgeInvite() -> [Signal] {
    var signals: [Signal] = []
    outbox.removeAll {
      guard case .invite(let invite) = $0.delivery.event else { return false }
      signals = invite.signals
      return true
    }
    return signals
  }

  /// Retransmits what is due. Returns how many.
  mutating func repeatDue(_ context: CallContext, into outcome: inout Outcome) -> Int {
    guard let session else { return 0 }
    var count = 0
    for index in outbox.indices where outbox[index].nextAt <= context.now {
      guard !context.isHeldBack else {
        outbox[index].nextAt = context.now + (context.limits.deliveryRepeats.first ?? .seconds(1))
        continue
      }
      send(index, to: session, into: &outcome)
      schedule(index, context)
      count += 1
    }
    return count
  }

  /// A session begins, or begins anew: says everything again, from the start.
  mutating func sayAgain(_ context: CallContext, into outcome: inout Outcome) {
    guard let session else { return }
    for index in outbox.indices {
      outbox[index].attempts = 0
      send(index, to: session, into: &outcome)
      schedule(index, context)
    }
  }

  /// After the last repetition the delivery waits for the device's next session.
  private mutating func schedule(_ index: Int, _ context: CallContext) {
    let repeats = context.limits.deliveryRepeats
    let attempts = outbox[index].attempts
    outbox[index].attempts += 1
    outbox[index].nextAt =
      attempts < repeats.count ? context.now + repeats[attempts] : .distantFuture
  }
}

/// What a call's methods need from outside: the time, the numbers, and who speaks.
struct CallContext {
  let now: Timestamp
  let limits: CallLimits
  let epoch: UInt64
  /// False before a new owner begins: until then it tells nobody anything.
  let isServing: Bool
  /// The journal has not taken what was decided before: to repeat that, too, would only add to it, and all
  /// attempts would leave at one moment.
  let isHeldBack: Bool
}
