package import CallCore
import CallWire

// A session ends with its token. The edge announces that, and a device that renews its token stays.
extension ClientMachine {
  /// Takes a new token; nil: none was available.
  package mutating func tokenRenewed(
    _ token: String?, now: Timestamp, into actions: inout [Action]
  ) {
    tokenAwaitedUntil = nil
    guard let token else { return }
    self.token = token
    // The wait is not cut short: a new token that is refused as well must not cause attempts
    // without end.
    isTokenRefused = false
    if state == .attached { submit(.renew(token: token), now: now, into: &actions) }
  }

  /// The app may never answer: then the token is requested again when it is next needed.
  mutating func askForToken(now: Timestamp, into actions: inout [Action]) {
    guard configuration.renewsToken, tokenAwaitedUntil.map({ $0 <= now }) ?? true else { return }
    tokenAwaitedUntil = now + configuration.newTokenTimeout
    actions.append(.renewToken)
  }

  /// Whether another token can help.
  func mayRenew(after error: CallError) -> Bool {
    switch error.code {
    case .expired, .revoked: configuration.renewsToken
    // If a token was good before, the keys have changed. Otherwise a new token would have the same
    // mistake.
    case .notAccepted: configuration.renewsToken && attachedBefore
    default: false
    }
  }

  /// An attach was refused for its token.
  mutating func tokenRefused(now: Timestamp, into actions: inout [Action]) {
    isTokenRefused = true
    askForToken(now: now, into: &actions)
  }

  /// It is time to connect, and there is no good token.
  mutating func awaitToken(
    now: Timestamp, random: inout some RandomNumberGenerator, into actions: inout [Action]
  ) {
    state = .waiting(until: now + backoff(failures: failures, random: &random))
    failures += 1
    askForToken(now: now, into: &actions)
  }
}
