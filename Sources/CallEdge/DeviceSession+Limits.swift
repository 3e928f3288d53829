package import CallCore
import CallWire

// MARK: What a peer may not do without end

extension DeviceSession {
  /// A WebSocket ping or pong arrived. It counts a tenth of a command.
  /// - Returns: whether a ping is to be answered.
  package mutating func receivedControl(now: Timestamp, into actions: inout [Action]) -> Bool {
    if case .closing = phase { return false }
    let wait = bucket.take(
      cost: 100, perSecond: rules.commandsPerSecond, burst: rules.commandsBurst, now: now)
    if wait == nil { return true }
    refusals += 1
    if refusals >= rules.refusalsMax { close(.tooManyCommands, now: now, into: &actions) }
    return false
  }

  /// The answer to `authenticate` where the token was not looked at.
  package mutating func mayNotAuthenticate(
    _ error: CallError, now: Timestamp, into actions: inout [Action]
  ) {
    guard case .authenticating(let former, let id, _) = phase else { return }
    phase = .connected(former)
    failAttach(id, error, now: now, into: &actions)
  }

  /// A message was begun and is not whole in time. What follows of it is not understood any more.
  package mutating func messageTookTooLong(now: Timestamp, into actions: inout [Action]) {
    if case .closing = phase { return }
    close(.messageTimeout, now: now, into: &actions)
  }
}
