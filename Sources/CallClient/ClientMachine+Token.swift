public import CallCore
import CallWire

// A session ends with its token: the edge says so before, and a device that renews it stays.
extension ClientMachine {
  /// There is a new token; nil: none could be had.
  public mutating func tokenRenewed(
    _ token: String?, now: Timestamp, into actions: inout [Action]
  ) {
    tokenAwaitedUntil = nil
    guard let token else { return }
    self.token = token
    // Who waits goes on waiting: a token that is refused, too, must not make a device try without end.
    isTokenRefused = false
    if state == .attached { submit(.renew(token: token), now: now, into: &actions) }
  }

  /// Whoever gets tokens may never answer: then the next need asks anew.
  mutating func askForToken(now: Timestamp, into actions: inout [Action]) {
    guard configuration.renewsToken, tokenAwaitedUntil.map({ $0 <= now }) ?? true else { return }
    tokenAwaitedUntil = now + configuration.newTokenTimeout
    actions.append(.renewToken)
  }

  /// Whether another token can help.
  func mayRenew(after error: CallError) -> Bool {
    switch error.code {
    case .expired, .revoked: configuration.renewsToken
    // Where one was good before, keys have changed. Else it is a mistake that another one will have, too.
    case .notAccepted: configuration.renewsToken && attachedBefore
    default: false
    }
  }

  /// An attach was refused for its token.
  mutating func tokenRefused(now: Timestamp, into actions: inout [Action]) {
    isTokenRefused = true
    askForToken(now: now, into: &actions)
  }

  /// It is time to connect, and there is no token to do it with.
  mutating func awaitToken(
    now: Timestamp, random: inout some RandomNumberGenerator, into actions: inout [Action]
  ) {
    state = .waiting(until: now + backoff(failures: failures, random: &random))
    failures += 1
    askForToken(now: now, into: &actions)
  }
}
