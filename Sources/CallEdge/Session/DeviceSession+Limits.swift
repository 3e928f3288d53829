package import CallCore
import CallWire

/// Limits on what a peer may do.
extension DeviceSession {
  /// A WebSocket ping or pong arrived. It counts a tenth of a command.
  /// - Returns: whether a ping is to be answered.
  package mutating func receivedControl(now: Timestamp, into actions: inout [Action]) -> Bool {
    if case .closing = phase { return false }
    let wait = bucket.take(
      cost: 100, perSecond: Int(rate.perSecond), burst: Int(rate.burst), now: now)
    if wait == nil { return true }
    refusals += 1
    if refusals >= rules.configuration.peers.refusalsMax {
      close(.tooManyCommands, now: now, into: &actions)
    }
    return false
  }

  /// Takes the cost of a frame from the session's rates.
  /// - Returns: nil, or why the frame is refused.
  mutating func takeRate(cost: Int64, bytes count: Int, now: Timestamp) -> CallError? {
    if let wait = bytes.take(
      cost: Int64(count) * 1000, perSecond: Int(rate.bytesPerSecond), burst: Int(rate.bytesBurst),
      now: now)
    {
      noteLimited(.bytesPerSession)
      return CallError(
        .rateLimited,
        "bytesPerSession: at most \(rate.bytesPerSecond) bytes a second, \(rate.bytesBurst) at once.",
        retryAfterMilliseconds: wait)
    }
    let (perSecond, burst) = (Int(rate.perSecond), Int(rate.burst))
    return bucket.take(cost: cost, perSecond: perSecond, burst: burst, now: now).map {
      noteLimited(.commandsPerSession)
      return .rateLimited(perSecond: perSecond, burst: burst, retryAfterMilliseconds: $0)
    }
  }

  private func noteLimited(_ limit: AppLimit) {
    guard let app = sentIdentity?.user.app else { return }
    rules.apps?.gate(of: app)?.count(limit)
  }
}
