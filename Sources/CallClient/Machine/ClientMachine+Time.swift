package import CallCore
internal import CallWire

// Deadlines, and the detection of dead connections.
extension ClientMachine {
  /// When `fire` is due; nil: not before another event.
  package var nextDeadline: Timestamp? {
    switch state {
    case .stopped: return nil
    case .waiting(let until): return until
    case .connecting(let deadline), .attaching(let deadline): return deadline
    case .attached:
      var next = min(silenceEndsAt, acksDueAt ?? .distantFuture)
      if let pingDueAt { next = min(next, pingDueAt) }
      for command in pending where command.nextAt < next { next = command.nextAt }
      if let move { next = min(next, move.deadline) }
      return next
    }
  }

  /// Does what is due.
  package mutating func fire(
    now: Timestamp, random: inout some RandomNumberGenerator, into actions: inout [Action]
  ) {
    switch state {
    case .stopped: return
    case .waiting(let until):
      guard until <= now else { return }
      if isTokenRefused {
        awaitToken(now: now, random: &random, into: &actions)
      } else {
        connect(now: now, into: &actions)
      }
    case .connecting(let deadline), .attaching(let deadline):
      guard deadline <= now else { return }
      actions.append(.close)
      wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
    case .attached:
      guard now < silenceEndsAt else {
        actions.append(.close)
        closed(now: now, random: &random, into: &actions)
        return
      }
      fireMove(now: now, random: &random, into: &actions)
      if let pingDueAt, pingDueAt <= now { ping(now: now, into: &actions) }
      if let due = acksDueAt, due <= now { sendAcks(into: &actions) }
      retransmitDue(now: now, into: &actions)
    }
  }

  /// When a silent connection counts as dead.
  private var silenceEndsAt: Timestamp {
    let end = heardAt + silenceMax
    guard let heartbeat = configuration.heartbeat, let openPing else { return end }
    return min(end, openPing + heartbeat.timeout)
  }

  /// Probes the connection, if a heartbeat is configured.
  mutating func ping(now: Timestamp, into actions: inout [Action]) {
    guard configuration.heartbeat != nil, openPing == nil else { return }
    pingedAt = now
    actions.append(.send(nextFrame(.ping)))
  }

  private var pingDueAt: Timestamp? {
    openPing == nil ? configuration.heartbeat.map { heardAt + $0.after } : nil
  }

  /// When the outstanding ping was sent; nil: none is outstanding.
  private var openPing: Timestamp? { pingedAt.flatMap { $0 >= heardAt ? $0 : nil } }
}
