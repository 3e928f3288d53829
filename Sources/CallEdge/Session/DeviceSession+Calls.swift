package import CallCore
import CallWire

/// The device's question for its live calls. It goes to every shard, each of which appends to its journal
/// before it answers, so a session may ask only once in `SessionRules.callsInterval`.
extension DeviceSession {
  mutating func askForCalls(_ id: UInt64, now: Timestamp, into actions: inout [Action]) {
    guard isAttached else {
      return actions.append(.reply(id, .error(CallError(.notAttached))))
    }
    // A retransmission: the first one will be answered.
    if callsRequest == id { return }
    guard callsRequest == nil, callsAllowedAt <= now else {
      return actions.append(.reply(id, .error(tooSoon(now: now))))
    }
    guard pendingCount < rules.configuration.commandsPendingPerSession else {
      return actions.append(.reply(id, .error(tooManyPending)))
    }
    pendingCount += 1
    callsRequest = id
    callsAllowedAt = now + rules.callsInterval
    actions.append(.askForCalls(request: id))
  }

  /// The answer to `askForCalls`.
  /// - Parameter live: nil where not every shard answered in time.
  package mutating func callsListed(
    request: UInt64, _ live: LiveCalls?, now: Timestamp, into actions: inout [Action]
  ) {
    let error = CallError(.tryAgain, retryAfterMilliseconds: untilCallsAllowed(now: now))
    end(request, live.map { .calls($0) } ?? .error(error), into: &actions)
  }

  /// The shards were not asked.
  package mutating func callsRefused(
    request: UInt64, _ error: CallError, now: Timestamp, into actions: inout [Action]
  ) {
    callsAllowedAt = now
    end(request, .error(error), into: &actions)
  }

  private mutating func end(_ request: UInt64, _ reply: ServerReply, into actions: inout [Action]) {
    guard callsRequest == request else { return }
    callsRequest = nil
    pendingCount -= min(1, pendingCount)
    if !isClosing { actions.append(.reply(request, reply)) }
  }

  private func tooSoon(now: Timestamp) -> CallError {
    CallError(
      .rateLimited,
      "A session asks for its calls once in \(rules.callsInterval.microseconds / 1_000_000) s.",
      retryAfterMilliseconds: untilCallsAllowed(now: now))
  }

  private func untilCallsAllowed(now: Timestamp) -> UInt32 {
    UInt32(clamping: max(1, (callsAllowedAt - now).microseconds / 1000))
  }
}
