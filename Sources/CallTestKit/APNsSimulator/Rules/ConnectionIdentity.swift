package import CallCore

/// The sender's identity on a connection, bound by the first valid provider token (R12 to R15).
package struct ConnectionIdentity: Sendable {
  package struct Limits: Sendable {
    /// A token that is older than this, in seconds, is expired.
    package var ageMax: Int64 = 3600
    /// The least time between the first use of a token and that of the next one.
    package var updateInterval = Span.seconds(20 * 60)
    package init() {}
    package init(timeScale: Int64) {
      ageMax = max(1, 3600 / timeScale)
      updateInterval = .seconds(20 * 60) / timeScale
    }
  }

  /// When each token was first used, in order, for the report.
  package private(set) var tokenUses: [Timestamp] = []
  static let tokenUsesMax = 1000

  private var bound: Bound?
  private var wedged = false

  private struct Bound: Sendable {
    var team: String
    var keyID: String
    /// A bundle that the team gets later is only valid on a new connection.
    var bundles: Set<String>
    var token: String
    var firstUse: Timestamp
  }

  package init() {}

  package var team: String? { bound?.team }
  package func allows(bundle: String) -> Bool { bound?.bundles.contains(bundle) == true }

  /// Returns the reason for which a push with this `authorization` is refused; nil: it is admitted.
  package mutating func admit(
    authorization: String?, teams: inout APNsTeams, environment: APNsEnvironment,
    limits: Limits, leniency: APNsLeniency, now: Timestamp
  ) -> Refusal? {
    // After an expired token the connection refuses every token.
    if wedged { return Refusal(.expiredProviderToken, .usedWedgedConnection) }
    // The scheme must be in lower case, as in Apple's documents. HTTP would allow any case.
    guard let authorization, authorization.hasPrefix("bearer ") else {
      return Refusal(.missingProviderToken)
    }
    let text = authorization.dropFirst(7)
    guard let token = teams.token(text, leniency), let key = teams.keys[token.keyID] else {
      return Refusal(.invalidProviderToken)
    }
    let seconds = now.microseconds / 1_000_000
    if token.issuedAt > seconds { return Refusal(.invalidProviderToken) }
    if seconds - token.issuedAt > limits.ageMax {
      wedged = true
      return Refusal(.expiredProviderToken)
    }
    if let environmentOfKey = key.environment, environmentOfKey != environment {
      return Refusal(.badEnvironmentKeyInToken)
    }
    guard var bound else {
      self.bound = Bound(
        team: token.team, keyID: token.keyID,
        bundles: key.bundles ?? teams.bundles[token.team] ?? [], token: String(text), firstUse: now)
      note(now)
      return nil
    }
    if token.team != bound.team { return Refusal(.invalidProviderToken, .foreignProviderToken) }
    if token.keyID != bound.keyID { return Refusal(.unrelatedKeyIDInToken) }
    if text == bound.token { return nil }
    if now - bound.firstUse < limits.updateInterval {
      return Refusal(.tooManyProviderTokenUpdates)
    }
    bound.token = String(text)
    bound.firstUse = now
    self.bound = bound
    note(now)
    return nil
  }

  private mutating func note(_ now: Timestamp) {
    if tokenUses.count < Self.tokenUsesMax { tokenUses.append(now) }
  }
}

/// Why a request is refused, and the violation that it shows, if any.
package struct Refusal: Error, Equatable {
  package var reason: APNsReason
  package var violation: APNsViolation?
  package var timestamp: Timestamp?
  package init(_ reason: APNsReason) {
    self.reason = reason
    violation = reason.violation
  }
  package init(_ reason: APNsReason, _ violation: APNsViolation?, timestamp: Timestamp? = nil) {
    self.reason = reason
    self.violation = violation
    self.timestamp = timestamp
  }
}

extension Span {
  static func / (span: Span, divisor: Int64) -> Span {
    Span(microseconds: span.microseconds / max(1, divisor))
  }
}
