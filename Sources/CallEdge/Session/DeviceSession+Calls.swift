package import CallCore
import CallWire

/// The device's question for its live calls. It goes to every shard, each of which appends to its journal
/// before it answers, so a session may ask only once in `SessionRules.callsInterval`.
extension DeviceSession {
  mutating func askForCalls(_ id: UInt64, _ turn: inout Turn) {
    guard isAttached else { return turn.refuse(id, CallError(.notAttached)) }
    // A retransmission: the first one will be answered.
    if callsRequest == id { return }
    guard callsRequest == nil, callsAllowedAt <= turn.now else {
      return turn.refuse(id, tooSoon(now: turn.now))
    }
    guard pendingCount < rules.configuration.commandsPendingPerSession else {
      return turn.refuse(id, tooManyPending)
    }
    pendingCount += 1
    callsRequest = id
    callsAllowedAt = turn.now + rules.callsInterval
    turn.actions.append(.askForCalls(request: id))
  }

  /// The answer to `askForCalls`.
  /// - Parameter live: nil where not every shard answered in time.
  package mutating func callsListed(request: UInt64, _ live: LiveCalls?, _ turn: inout Turn) {
    let error = CallError(.tryAgain, retryAfterMilliseconds: untilCallsAllowed(now: turn.now))
    end(request, live.map { .calls($0) } ?? .error(error), &turn)
  }

  /// The shards were not asked.
  package mutating func callsRefused(request: UInt64, _ error: CallError, _ turn: inout Turn) {
    callsAllowedAt = turn.now
    end(request, .error(error), &turn)
  }

  private mutating func end(_ request: UInt64, _ reply: ServerReply, _ turn: inout Turn) {
    guard callsRequest == request else { return }
    callsRequest = nil
    pendingCount -= min(1, pendingCount)
    if !isClosing { turn.reply(request, reply) }
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
