package import CallCore

/// The consequence of an attempt to send a push.
package enum AttemptVerdict: Sendable, Equatable {
  /// The push's outcome, and the provider's name of the message if it has one.
  case done(PushOutcome, name: String? = nil)
  /// Another attempt, after a pause that ends before the deadline.
  case retry(after: Span, reason: String, Cause = .trouble)
  /// The provider refuses the token, or knows no such token.
  case tokenRefused(TokenRefusal)
  /// Another attempt at once, with new credentials.
  case renew(reason: String)

  package enum Cause: Sendable, Equatable {
    case trouble
    /// It is unknown whether the provider has the push.
    case doubt
  }
}

/// The state of a push that a verdict depends on.
package struct AttemptContext: Sendable, Equatable {
  /// The number of this attempt, from 1.
  package var attempt = 1
  /// Whether the credentials have already been renewed for this push.
  package var renewed = false
  /// The number of attempts whose result is unknown.
  package var doubts = 0
  /// As `PushMessage.isUrgent`.
  package var isUrgent = true
  package var now: Timestamp
  package var deadline: Timestamp
  /// A random number, for jitter.
  package var chance: UInt64 = 0

  package init(now: Timestamp, deadline: Timestamp) {
    self.now = now
    self.deadline = deadline
  }

  /// The most attempts that a notice gets.
  package static let attemptsMax = 6
  /// The pauses of a push that changes what rings, if the provider demands none.
  static let urgentBackoff = Backoff(.milliseconds(500), to: .seconds(4))
  private static let noticeBackoff = Backoff(.milliseconds(500), to: .seconds(16))

  /// The longest pause before the next attempt of a push that changes what rings: a third of the time that is left, at
  /// least half a second. A provider may demand more, even an hour, after a moment of trouble, and a call cannot wait
  /// for it. So 30 s hold ten to fifteen attempts, and the last ones are close to the deadline.
  static func longestPause(timeLeft: Span) -> Span {
    max(.milliseconds(500), Span(microseconds: timeLeft.microseconds / 3))
  }

  /// A retry, unless the pause would end after the deadline, or a notice has had `attemptsMax` attempts.
  /// - Parameter wait: the wait that the provider demands; nil: our own backoff.
  package func retry(
    after wait: Span? = nil, reason: String, _ cause: AttemptVerdict.Cause = .trouble
  ) -> AttemptVerdict {
    guard isUrgent || attempt < Self.attemptsMax else { return .done(.failed(reason: reason)) }
    let backoff = isUrgent ? Self.urgentBackoff : Self.noticeBackoff
    let ours = backoff.pause(after: attempt - 1, chance: chance)
    // A provider that says 0 is not retried in a tight loop, and not ever so often.
    let least = attempt < Self.attemptsMax ? .milliseconds(100) : ours
    var pause = wait.map { max($0, least) } ?? ours
    if isUrgent { pause = min(pause, Self.longestPause(timeLeft: deadline - now)) }
    guard now + pause < deadline else { return .done(.failed(reason: reason)) }
    return .retry(after: pause, reason: reason, cause)
  }

  /// The verdict of an answer that is about neither the token nor the push: credentials, project, address, a redirect,
  /// or unreadable text. The cause may be a short fault of the provider, so a push that changes what rings is tried on;
  /// a notice is rejected.
  func refused(_ reason: String) -> AttemptVerdict {
    isUrgent ? retry(reason: reason) : .done(.rejected(reason: reason))
  }

  /// The verdict after an attempt whose result is unknown.
  ///
  /// Neither FCM nor Web Push has idempotency keys, so a retry can deliver twice. A push that changes what rings is
  /// still retried: the device drops a second copy by the call's id, while a lost push is a missed call. A notice is
  /// not.
  package func inDoubt(_ reason: String) -> AttemptVerdict {
    guard isUrgent, case .retry(let pause, _, _) = retry(reason: reason, .doubt)
    else { return .done(.failed(reason: reason, mayHaveArrived: true)) }
    return .retry(after: pause, reason: reason, .doubt)
  }

  /// The wait that an answer demands (`Retry-After`).
  package func retryAfter(_ answer: ProviderAnswer) -> Span? {
    answer.headers["retry-after"].flatMap { RetryAfter.span($0, now: now) }
  }

  /// The verdict of a reply, where FCM and Web Push agree: no answer, a timeout, a quota, a server's error.
  /// - Parameters:
  ///   - quotaPause: the wait after 429 if the answer names none.
  ///   - other: judges all other answers.
  func judge(
    _ reply: ProviderReply, quotaPause: Span, reason: (ProviderAnswer) -> String,
    other: (ProviderAnswer) -> AttemptVerdict
  ) -> AttemptVerdict {
    switch reply {
    case .notSent(let why): retry(reason: why)
    case .unknown(let why): inDoubt(why)
    case .answer(let answer):
      switch answer.status {
      case 408: retry(reason: reason(answer))
      case 429: retry(after: retryAfter(answer) ?? quotaPause, reason: reason(answer))
      case 500...599: retry(after: retryAfter(answer), reason: reason(answer))
      default: other(answer)
      }
    }
  }
}
