package import CallCore

/// Decides when an access token is used, renewed and dropped. One exchange runs at a time and serves all waiters. A
/// failed one fails for all of them, and a pause follows. Time and randomness are arguments.
package struct AccessTokenMachine: Sendable {
  package struct Token: Sendable, Equatable {
    package var text: String
    /// The end of its use, shortly before it expires.
    package var unusableAt: Timestamp
    /// The time from which the next token is fetched, while this one remains in use.
    package var renewAt: Timestamp
  }

  /// The action that the caller must take.
  package enum Answer: Sendable, Equatable {
    case use(String)
    /// Begin an exchange, and use this token meanwhile.
    case useAndExchange(String)
    /// Begin an exchange, and wait for it.
    case exchange
    /// Wait for the exchange under way.
    case wait
    /// The latest exchange failed; the next may begin at `until`.
    case pausing(reason: String, until: Timestamp)
  }

  package enum Exchanged: Sendable, Equatable {
    case token(String, lifetime: Span)
    case failed(reason: String)
  }

  /// The pauses after failed exchanges are short, whatever the endpoint answers: a refusal may be a moment of the
  /// endpoint, and all rings wait for the next exchange, which is one request for all of them.
  private static let backoff = Backoff(.milliseconds(500), to: .seconds(4))

  private var token: Token?
  private var exchanging = false
  private var failures = 0
  private var trouble: (reason: String, until: Timestamp)?
  /// Grows with each change of credentials. The result of an exchange with former credentials is ignored.
  package private(set) var generation: UInt64 = 0

  package init() {}

  package mutating func want(now: Timestamp) -> Answer {
    if let token, now < token.unusableAt {
      let isPausing = trouble.map { now < $0.until } ?? false
      guard now >= token.renewAt, !exchanging, !isPausing else { return .use(token.text) }
      exchanging = true
      return .useAndExchange(token.text)
    }
    if exchanging { return .wait }
    if let trouble, now < trouble.until {
      return .pausing(reason: trouble.reason, until: trouble.until)
    }
    exchanging = true
    return .exchange
  }

  /// The end of an exchange that began under `generation`.
  package mutating func exchanged(
    _ result: Exchanged, generation: UInt64, now: Timestamp, chance: UInt64
  ) {
    guard generation == self.generation else { return }
    exchanging = false
    switch result {
    case .token(let text, let lifetime):
      failures = 0
      trouble = nil
      token = Self.token(text, lifetime: lifetime, now: now, chance: chance)
    case .failed(let reason):
      trouble = (reason, now + Self.backoff.pause(after: failures, chance: chance))
      failures += 1
    }
  }

  /// Renews after three quarters of the lifetime, plus up to a tenth, so that gateways that started together do not
  /// renew together.
  static func token(_ text: String, lifetime: Span, now: Timestamp, chance: UInt64) -> Token {
    let whole = max(0, lifetime.microseconds)
    let margin = min(whole / 10, 60_000_000)
    let spread = UInt64(whole / 10) + 1
    return Token(
      text: text, unusableAt: now + Span(microseconds: whole - margin),
      renewAt: now + Span(microseconds: whole / 4 * 3 + Int64(chance % spread)))
  }

  /// The provider refused a token, which is then no longer used.
  package mutating func refused(_ text: String) {
    if token?.text == text { token = nil }
  }

  /// Forgets everything about the former credentials.
  package mutating func credentialsChanged() {
    let generation = generation + 1
    self = AccessTokenMachine()
    self.generation = generation
  }
}
