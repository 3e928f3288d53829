package import CallAuth
package import CallCore

/// How many pushes a second each app may have of one worker. What is to end a ring is not counted: a phone
/// that was made to ring is told.
package struct PushRates {
  private let tokens: TokenAuthority?
  /// Of the keys that `terms` stand beside.
  private var generation: UInt64?
  private var terms: [String: AppTerms] = [:]
  private var buckets: [String: TokenBucket] = [:]
  /// Apps are those of the file of keys. Policy where edges know more: all begin anew.
  private static let appsMax = 1024

  /// - Parameter tokens: nil: every app has the standard limit.
  package init(_ tokens: TokenAuthority?) { self.tokens = tokens }

  /// Takes one push from the app's rate.
  /// - Returns: nil, or the limit.
  package mutating func refusal(of job: PushJob, now: Timestamp) -> String? {
    if job.purpose.isCleanUp { return nil }
    if let tokens, tokens.generation != generation {
      generation = tokens.generation
      terms = tokens.keys.terms
      buckets = [:]
    }
    let limits = terms[job.user.app]?.limits ?? AppLimits()
    if buckets.count >= Self.appsMax { buckets = [:] }
    let burst = limits.burst(.pushesPerSecond)
    let wait = buckets[job.user.app, default: TokenBucket(burst: burst, now: now)]
      .take(perSecond: limits[.pushesPerSecond], burst: burst, now: now)
    return wait.map { limits.refusal(.pushesPerSecond, retryAfterMilliseconds: $0).message }
  }
}
