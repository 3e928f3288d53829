package import CallCore

/// When an HTTP request to the edges is retransmitted, and when not. A pure machine: one per request.
///
/// Every request of the device protocol may be said twice, so one whose answer was lost is said
/// again like one that never arrived.
package struct RetryPlan: Sendable {
  package struct Limits: Sendable, Equatable {
    /// From the first attempt on; no attempt begins or lasts beyond it.
    package var deadline: Span
    /// Of one attempt, connecting included.
    package var attemptTimeout: Span
    /// The wait doubles with each attempt, with jitter of half.
    package var backoffMinimum: Span
    package var backoffMaximum: Span

    package init(
      deadline: Span, attemptTimeout: Span, backoffMinimum: Span, backoffMaximum: Span
    ) {
      self.deadline = deadline
      self.attemptTimeout = attemptTimeout
      self.backoffMinimum = backoffMinimum
      self.backoffMaximum = backoffMaximum
    }
  }

  package enum Step: Sendable, Equatable {
    /// Ask the edge with this number, for so long at most.
    case attempt(edge: Int, timeout: Span)
    case wait(Span)
    case giveUp(CallError)
  }

  private let limits: Limits
  private let edges: Int
  private let endsAt: Timestamp
  private var attempts = 0
  private var waited = true
  private var retryAfter: Span = .milliseconds(0)
  private var lastError = CallError(.tryAgain, "No edge answered in time.")

  /// - Parameter edges: how many there are.
  package init(edges: Int, limits: Limits, now: Timestamp) {
    self.edges = edges
    self.limits = limits
    endsAt = now + limits.deadline
  }

  /// What to do now: at the beginning, after a wait, or after `failed`.
  package mutating func next(
    now: Timestamp, random: inout some RandomNumberGenerator
  ) -> Step {
    guard edges > 0 else { return .giveUp(CallError(.tryAgain, "No edge is known.")) }
    guard waited else {
      let wait = max(retryAfter.microseconds, backoff(&random).microseconds)
      guard now.microseconds + wait < endsAt.microseconds else { return .giveUp(lastError) }
      waited = true
      return .wait(Span(microseconds: wait))
    }
    let left = endsAt - now
    guard left.microseconds > 0 else { return .giveUp(lastError) }
    let edge = attempts % edges
    attempts += 1
    waited = false
    let timeout = min(limits.attemptTimeout.microseconds, left.microseconds)
    return .attempt(edge: edge, timeout: Span(microseconds: timeout))
  }

  /// The last attempt got no answer, or none that an edge gives.
  package mutating func failed() { retryAfter = .milliseconds(0) }

  /// There was no attempt to speak of: who answers is not believed to be an edge.
  package mutating func failed(_ problem: String) {
    lastError = CallError(.tryAgain, problem)
    failed()
  }

  /// The last attempt was answered with an error.
  /// - Returns: whether to go on; else the error is the request's.
  package mutating func refused(_ error: CallError, status: Int) -> Bool {
    guard status >= 500 || status == 429 else { return false }
    lastError = error
    retryAfter = .milliseconds(Int64(error.retryAfterMilliseconds))
    return true
  }

  private func backoff(_ random: inout some RandomNumberGenerator) -> Span {
    let doubled = limits.backoffMinimum.microseconds << Int64(min(max(0, attempts - 1), 16))
    let ceiling = max(1, min(doubled, limits.backoffMaximum.microseconds))
    return Span(microseconds: ceiling / 2 + Int64.random(in: 0...ceiling / 2, using: &random))
  }
}
