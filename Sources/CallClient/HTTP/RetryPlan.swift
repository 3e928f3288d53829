package import CallCore

/// The retry policy of one HTTP request to the edges, as a pure state machine.
///
/// Every request of the device protocol is idempotent, so one whose response was lost is retried like one
/// that never arrived.
package struct RetryPlan: Sendable {
  package enum Step: Sendable, Equatable {
    /// Send the request to the edge with this index and wait for at most this long.
    case attempt(edge: Int, timeout: Span)
    case wait(Span)
    case giveUp(CallError)
  }

  private let limits: EdgeHTTPClient.Options
  private let edges: Int
  private let endsAt: Timestamp
  private var attempts = 0
  private var waited = true
  private var retryAfter: Span = .milliseconds(0)
  private var lastError = CallError(.tryAgain, "No edge answered in time.")

  /// - Parameter edges: the number of edges.
  package init(edges: Int, limits: EdgeHTTPClient.Options, now: Timestamp) {
    self.edges = edges
    self.limits = limits
    endsAt = now + limits.deadline
  }

  /// The next step: at the beginning, after a wait, or after `failed` or `refused`.
  package mutating func next(now: Timestamp, random: inout some RandomNumberGenerator) -> Step {
    guard edges > 0 else { return .giveUp(CallError(.tryAgain, "No edge is known.")) }
    guard waited else {
      let backoff = Backoff(limits.backoffMinimum, to: limits.backoffMaximum)
        .pause(after: attempts - 1, random: &random)
      let wait = max(retryAfter.microseconds, backoff.microseconds)
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

  /// The last attempt got no response, or one that is not from an edge.
  package mutating func failed() { retryAfter = .milliseconds(0) }

  /// The last attempt failed for a reason that the user can act on: the server is not trusted.
  package mutating func failed(_ problem: String) {
    lastError = CallError(.tryAgain, problem)
    failed()
  }

  /// The last attempt was answered with an error.
  /// - Returns: whether to retry; if not, the error is final.
  package mutating func refused(_ error: CallError, status: Int) -> Bool {
    guard status >= 500 || status == 429 else { return false }
    lastError = error
    retryAfter = .milliseconds(Int64(error.retryAfterMilliseconds))
    return true
  }
}
