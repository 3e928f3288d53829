import CallCore
import CallWire

// A session ends with its token. The edge announces that, and a device that renews its token stays.
extension ClientMachine {
  /// Takes a new token; nil: none was available.
  package mutating func tokenRenewed(_ token: String?, _ turn: inout Turn) {
    tokenAwaitedUntil = nil
    guard let token else { return }
    self.token = token
    // The wait is not cut short: a new token that is refused as well must not cause attempts
    // without end.
    isTokenRefused = false
    if state == .attached { enqueue(.renew(token: token), &turn) }
  }

  /// The app may never answer: then the token is requested again when it is next needed.
  mutating func askForToken(_ turn: inout Turn) {
    guard configuration.renewsToken, tokenAwaitedUntil.map({ $0 <= turn.now }) ?? true else {
      return
    }
    tokenAwaitedUntil = turn.now + configuration.newTokenTimeout
    turn.actions.append(.renewToken)
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
  mutating func tokenRefused(_ turn: inout Turn) {
    isTokenRefused = true
    askForToken(&turn)
  }

  /// It is time to connect, and there is no good token.
  mutating func awaitToken(_ turn: inout Turn) {
    state = .waiting(until: turn.now + backoff(failures: failures, random: &turn.random))
    failures += 1
    askForToken(&turn)
  }
}
