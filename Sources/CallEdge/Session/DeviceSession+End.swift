internal import CallCore

/// Time, and the end of the session.
extension DeviceSession {
  /// Does what is due: closes the session at a deadline, or pings. To be called about once a second.
  package mutating func tick(_ turn: inout Turn) {
    switch phase {
    case .closing(let until):
      if until <= turn.now { turn.actions.append(.abort) }
    case .connected, .authenticating:
      if deadline <= turn.now { close(.attachTimeout, &turn) }
    case .attaching:
      // The attach is answered in time: by its shard, or by the loop's outbox.
      break
    case .attached:
      if checkTokenExpiry(&turn) { return }
      renewRelays(&turn)
      forgetRung(now: turn.now)
      if mayReportTalking { reportTalking(&turn) }
      guard deadline <= turn.now else { return }
      if hasReceived { pingsUnanswered = 0 }
      hasReceived = false
      deadline = turn.now + rules.configuration.pingInterval
      if Int(pingsUnanswered) >= rules.configuration.pingsMissedMax {
        close(.pingTimeout, &turn)
        turn.actions.append(.abort)
      } else {
        pingsUnanswered += 1
        turn.actions.append(.ping)
      }
    }
  }

  /// The facts that the shards must learn about the session's end.
  /// - Returns: nil where no shard knows the session, and from the second call on.
  package mutating func takeEnd() -> End? {
    guard let identity = sentIdentity else { return nil }
    sentIdentity = nil
    var calls: [UserKey: [CallID]] = [:]
    for placed in placedCalls { calls[placed.callee, default: []].append(placed.call) }
    placedCalls = []
    return End(
      user: identity.user, device: identity.device, credential: credential,
      isGraceful: endsGracefully, calls: calls)
  }

  /// Ends the session: an operator does, or the peer has reached a limit or broken the WebSocket protocol.
  package mutating func end(_ reason: CloseReason, _ turn: inout Turn) {
    if isClosing { return }
    // The peer may be reading too slowly, or still sending. What waits and the close frame after it are kept for
    // `lingerTimeout`, and nothing is added.
    let lingers = [.slowConsumer, .protocolError, .messageTooLarge].contains(reason)
    close(reason, within: lingers ? rules.lingerTimeout : nil, &turn)
  }

  /// Closes the session.
  /// - Parameter timeout: how long the peer may take to answer the close frame; nil:
  ///   `SessionRules.closeTimeout`.
  mutating func close(_ reason: CloseReason, within timeout: Span? = nil, _ turn: inout Turn) {
    phase = .closing(until: turn.now + (timeout ?? rules.closeTimeout))
    turn.actions.append(.close(reason))
  }
}
