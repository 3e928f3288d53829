internal import CallAuth
internal import CallCore
internal import CallTelemetry
internal import DequeModule

/// Verifies tokens, and ends sessions whose tokens are no longer valid or that an operator
/// ends.
extension EdgeLoop {
  // MARK: Verification

  /// Verifies a token that came on a device's connection. A connection that went on with bad tokens when its address
  /// had used its rate up gets none verified for a while.
  func verify(
    _ token: String, of connection: Connection, now: Timestamp
  ) -> Result<DeviceClaims, CallError> {
    if let until = connection.refusedUntil, now < until {
      return .failure(tooManyRefused(wait: UInt32(clamping: (until - now).microseconds / 1000)))
    }
    do {
      try admitVerification(of: connection, now: now)
      return .success(try shared.verify(token, now: now))
    } catch {
      let refusal = countRefusal(error, connection)
      if refusal.code == .rateLimited {
        connection.refusedUntil = now + .milliseconds(Int64(refusal.retryAfterMilliseconds))
      }
      return .failure(refusal)
    }
  }

  /// Counts an error against the connection's address where a credential was refused. Other peers of the address are not
  /// affected; `admitVerification` bounds the cost of bad credentials.
  /// - Returns: the error for the device: `rateLimited` where its address has used up its rate, else the same one.
  func countRefusal(_ error: CallError, _ connection: Connection) -> CallError {
    switch error.code {
    case .notAccepted, .expired, .tokenTooLong, .revoked:
      shared.gate.failedToAuthenticate(connection.address, now: now).map(tooManyRefused(wait:))
        ?? error
    default: error
    }
  }

  /// - Throws: `rateLimited` where a credential that came on the connection is not to be verified now.
  func admitVerification(of connection: Connection, now: Timestamp) throws(CallError) {
    if let wait = shared.gate.chargeVerification(of: connection.address, now: now) {
      throw tooManyRefused(wait: wait)
    }
  }

  private func tooManyRefused(wait: UInt32) -> CallError {
    metrics.count(limit: .failedAuthsPerAddress)
    return CallError(
      .rateLimited,
      "At most \(shared.gate.limits.failedAuthsPerAddress) refused tokens a minute from one address.",
      retryAfterMilliseconds: wait)
  }

  // MARK: Changes

  /// Puts the apps' terms in force where the file of keys has changed. One loop does so for all.
  func updateAppTerms(now: Timestamp) {
    let generation = shared.tokens.generation
    guard index == 0, generation != termsGeneration else { return }
    termsGeneration = generation
    let keys = shared.tokens.keys
    shared.apps.update(keys.terms, now: now)
    shared.hooks.update(keys.hooks)
  }

  /// Checks the tokens of all sessions again where keys or revocations have changed.
  func recheckTokens(now: Timestamp) {
    let generation = shared.tokens.generation
    guard generation != tokenGeneration else { return }
    tokenGeneration = generation
    for handler in devices {
      let sender = handler.session.sender
      handler.handle(at: now) { $0.recheckToken(shared.tokens, &$1) }
      if let sender, device(handler.number) == nil { revokedLately.add(sender.user) }
    }
    flushSockets()
    flushCommands(all: true)
  }

  /// Ends the sessions that an operator names.
  /// - Returns: how many sessions ended.
  func carryOut(_ request: KickRequest) -> Int {
    let user = UserKey(app: request.app, user: request.user)
    let now = self.now
    guard request.revokedAtSeconds == nil else {
      recheckTokens(now: now)
      return revokedLately.removeAll(of: user)
    }
    var count = 0
    for handler in devices {
      guard let sender = handler.session.sender, sender.user == user,
        request.device.map({ DeviceID($0) == sender.device }) ?? true
      else { continue }
      handler.handle(at: now) { $0.end(.kicked, &$1) }
      count += 1
    }
    flushSockets()
    flushCommands(all: true)
    return count
  }
}

/// The users of sessions that ended with their tokens: a revocation may arrive before the operator's request,
/// which is answered with the number of sessions that ended.
///
/// Policy when full: forget the oldest. Only that number is then too low.
struct RevokedLately {
  private var users: Deque<UserKey> = []
  private static let capacity = 1024

  mutating func add(_ user: UserKey) {
    if users.count >= Self.capacity { users.removeFirst() }
    users.append(user)
  }

  /// - Returns: how many sessions of the user ended since the last call.
  mutating func removeAll(of user: UserKey) -> Int {
    let before = users.count
    users.removeAll { $0 == user }
    return before - users.count
  }
}
