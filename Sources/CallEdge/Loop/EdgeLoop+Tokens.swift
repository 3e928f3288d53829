internal import CallAuth
internal import CallCore
internal import CallTelemetry
internal import DequeModule

/// How an event loop ends sessions whose tokens do not count any more, or that an operator ends.
extension EdgeLoop {
  /// Looks at all sessions again where keys or revocations have changed.
  func tendTokens(now: Timestamp) {
    let generation = shared.tokens.generation
    guard generation != tokenGeneration else { return }
    tokenGeneration = generation
    for handler in devices {
      let sender = handler.sender
      handler.recheckToken(now: now)
      if let sender, device(handler.number) == nil { revokedLately.add(sender.user) }
    }
    flushTouched()
    flushCommands(all: true)
  }

  /// What an operator asks for.
  /// - Returns: how many sessions ended.
  func carryOut(_ request: KickRequest) -> Int {
    let user = UserKey(app: request.app, user: request.user)
    let now = self.now
    guard request.revokedAtSeconds == nil else {
      tendTokens(now: now)
      return revokedLately.take(user)
    }
    var count = 0
    for handler in devices {
      guard let sender = handler.sender, sender.user == user,
        request.device.map({ DeviceID($0) == sender.device }) ?? true
      else { continue }
      handler.kick(now: now)
      count += 1
    }
    flushTouched()
    flushCommands(all: true)
    return count
  }

  /// A copy: who ends takes itself off the table.
  private var devices: [WebSocketHandler] {
    endpoints.values.compactMap { if case .device(let handler) = $0 { handler } else { nil } }
  }
}

/// Whose sessions ended with their tokens: the news of a revocation may come before the operator's
/// question how many did. Bounded; forgets the oldest.
struct RevokedLately {
  private var users: Deque<UserKey> = []
  private static let capacity = 1024

  mutating func add(_ user: UserKey) {
    if users.count >= Self.capacity { users.removeFirst() }
    users.append(user)
  }

  /// - Returns: how many sessions of the user there were since the last time.
  mutating func take(_ user: UserKey) -> Int {
    let before = users.count
    users.removeAll { $0 == user }
    return before - users.count
  }
}
