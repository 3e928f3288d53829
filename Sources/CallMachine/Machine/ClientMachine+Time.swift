package import CallCore
internal import CallWire

// Deadlines, and the detection of dead connections.
extension ClientMachine {
  /// When `fire` is due; nil: not before another event.
  package var nextDeadline: Timestamp? {
    switch state {
    case .stopped: return nil
    case .waiting(let next), .connecting(let next), .attaching(let next):
      return min(next, ringDeadline, expiry)
    case .attached:
      var next = min(silenceEndsAt, ackDeadline ?? .distantFuture)
      if let pingDueAt { next = min(next, pingDueAt) }
      for command in pending where command.nextAt < next { next = command.nextAt }
      if let move { next = min(next, move.deadline) }
      for awaited in awaitedInvites { next = min(next, awaited.askAt) }
      return next
    }
  }

  /// Does what is due.
  package mutating func fire(_ turn: inout Turn) {
    if state != .attached {
      stopRinging(&turn)
      expireCommands(&turn)
    }
    switch state {
    case .stopped: return
    case .waiting(let until):
      guard until <= turn.now else { return }
      if isTokenRefused {
        awaitToken(&turn)
      } else {
        connect(&turn)
      }
    case .connecting(let deadline), .attaching(let deadline):
      guard deadline <= turn.now else { return }
      turn.actions.append(.close)
      wait(isUnanswered: true, &turn)
    case .attached:
      guard turn.now < silenceEndsAt else {
        turn.actions.append(.close)
        closed(&turn)
        return
      }
      fireMove(&turn)
      if let pingDueAt, pingDueAt <= turn.now { ping(&turn) }
      if let due = acksDueAt, due <= turn.now { sendAcks(&turn) }
      askForInvites(&turn)
      retransmitDue(&turn)
    }
  }

  /// When a silent connection counts as dead.
  private var silenceEndsAt: Timestamp {
    let end = lastContact + silenceMax
    guard let heartbeat = configuration.heartbeat, let openPing else { return end }
    return min(end, openPing + heartbeat.timeout)
  }

  /// Finds out at once whether the connection lives, or connects at once instead of after a wait.
  package mutating func probe(_ turn: inout Turn) {
    if state == .attached { ping(&turn) } else { reconnectNow(&turn) }
  }

  /// Probes the connection, if a heartbeat is configured.
  mutating func ping(_ turn: inout Turn) {
    guard configuration.heartbeat != nil, openPing == nil else { return }
    pingedAt = turn.now
    turn.actions.append(.send(nextFrame(.ping)))
  }

  private var pingDueAt: Timestamp? {
    openPing == nil ? configuration.heartbeat.map { lastContact + $0.after } : nil
  }

  /// When the outstanding ping was sent; nil: none is outstanding.
  private var openPing: Timestamp? { pingedAt.flatMap { $0 >= lastContact ? $0 : nil } }
}

// Acknowledgements of deliveries: they travel with the next command, or by themselves a little later.
extension ClientMachine {
  struct PendingAck: Sendable {
    var item: AckItem
    /// Any command about the call acknowledges the invite as well.
    var isInvite: Bool
  }

  /// Nothing more to read for now: deliveries are acknowledged with the next command, or after
  /// `ackDelay`.
  package mutating func readCompleted(_ turn: inout Turn) {
    guard !acks.isEmpty else { return }
    if acks.count >= Self.acksMax || configuration.ackDelay.microseconds == 0 {
      sendAcks(&turn)
    } else if acksDueAt == nil {
      acksDueAt = turn.now + configuration.ackDelay
    }
  }

  /// When `fire` sends the waiting acknowledgements at the latest; nil: none wait, or no edge is there to
  /// take them.
  package var ackDeadline: Timestamp? { state == .attached ? acksDueAt : nil }

  static let acksMax = 32

  mutating func sendAcks(_ turn: inout Turn) {
    acksDueAt = nil
    guard !acks.isEmpty else { return }
    if state == .attached {
      turn.actions.append(.send(ClientFrame(id: 0, command: .ack(acks.map(\.item)))))
    }
    acks.removeAll(keepingCapacity: true)
  }

  mutating func forgetAcks() {
    acksDueAt = nil
    acks.removeAll()
    heldAcks.removeAll()
  }

  /// For the cluster an acknowledgement says that the device has the call. So those of a call that a former run of the
  /// app had wait until this run sends a command about it. Policy at the limit: the newest are dropped, and the
  /// deliveries retransmitted.
  mutating func hold(_ ack: PendingAck) {
    guard heldAcks.count < Self.heldAcksMax, !heldAcks.contains(where: { $0.item == ack.item })
    else { return }
    heldAcks.append(ack)
  }

  private static let heldAcksMax = 64

  /// The app sends a command about a call.
  mutating func claim(_ call: CallID) {
    guard calls[call]?.isUnclaimed == true else { return }
    calls[call]?.isUnclaimed = false
    releaseAcks(of: call)
  }

  mutating func releaseAcks(of call: CallID) {
    acks += heldAcks.filter { $0.item.call.call == call }
    heldAcks.removeAll { $0.item.call.call == call }
  }
}
