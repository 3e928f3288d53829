package import CallCore

/// What to do after one attempt to send a push.
package enum AttemptVerdict: Sendable, Equatable {
  /// The push's fate. `name` is what the provider calls the message, where it says so.
  case done(PushOutcome, name: String? = nil)
  /// Another attempt, after a pause that ends before the deadline.
  case retry(after: Span, reason: String, Cause = .trouble)
  /// Another attempt at once, with new credentials.
  case renew(reason: String)

  package enum Cause: Sendable, Equatable {
    case trouble
    /// Nobody knows whether the provider has the push.
    case doubt
  }
}

/// What a verdict depends on beside the answer.
package struct AttemptContext: Sendable, Equatable {
  /// Counts from 1, this attempt included.
  package var attempt: Int
  /// Whether credentials were already renewed for this push.
  package var renewed: Bool
  /// How often an attempt of this push ended without anybody knowing whether the provider has it.
  package var doubts: Int
  /// Whether the device does nothing with a second copy. True of all that names a call and changes
  /// what rings; false of a notice, which the user would see twice.
  package var repeatable: Bool
  package var now: Timestamp
  package var deadline: Timestamp
  /// Anything: spreads retries.
  package var chance: UInt64

  package init(
    attempt: Int = 1, renewed: Bool = false, doubts: Int = 0, repeatable: Bool = true,
    now: Timestamp, deadline: Timestamp, chance: UInt64 = 0
  ) {
    self.attempt = attempt
    self.renewed = renewed
    self.doubts = doubts
    self.repeatable = repeatable
    self.now = now
    self.deadline = deadline
    self.chance = chance
  }

  package static let attemptsMax = 6

  /// Doubles from `first` with each attempt, at most `most`, of which a random quarter is left off,
  /// so that gateways that failed together do not return together.
  package static func backoff(
    attempt: Int, first: Span = .milliseconds(500), most: Span = .seconds(16), chance: UInt64
  ) -> Span {
    let doublings = min(max(0, attempt - 1), 20)
    let whole = min(first.microseconds << Int64(doublings), most.microseconds)
    let quarter = UInt64(whole / 4) + 1
    return Span(microseconds: whole - Int64(chance % quarter))
  }

  /// Again, unless the pause would end behind the deadline or there were attempts enough.
  /// - Parameter wait: what the provider asked for; nil: our own backoff.
  package func retry(
    after wait: Span? = nil, reason: String, _ cause: AttemptVerdict.Cause = .trouble
  ) -> AttemptVerdict {
    guard attempt < Self.attemptsMax else { return .done(.failed(reason: reason)) }
    let ours = Self.backoff(attempt: attempt, chance: chance)
    // A provider that says 0 is not asked again in a tight loop.
    let pause = wait.map { max($0, .milliseconds(100)) } ?? ours
    guard now + pause < deadline else { return .done(.failed(reason: reason)) }
    return .retry(after: pause, reason: reason, cause)
  }

  /// After an attempt of which nobody knows whether it arrived.
  ///
  /// Neither FCM nor Web Push knows an idempotency key, so a repetition can deliver twice. What names
  /// a call is repeated once all the same: the device drops the second copy by the call's id, while a
  /// push that got lost is a call that nobody hears. A notice is not.
  package func inDoubt(_ reason: String) -> AttemptVerdict {
    guard repeatable, doubts == 0, case .retry(let pause, _, _) = retry(reason: reason, .doubt)
    else { return .done(.failed(reason: reason, mayHaveArrived: true)) }
    return .retry(after: pause, reason: reason, .doubt)
  }

  /// The wait that an answer asks for.
  package func retryAfter(_ answer: ProviderAnswer) -> Span? {
    answer.headers["retry-after"].flatMap { RetryAfter.span($0, now: now) }
  }
}
