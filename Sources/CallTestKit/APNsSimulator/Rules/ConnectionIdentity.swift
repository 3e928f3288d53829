package import CallCore

/// The sender's identity on a connection, bound by the first valid provider token (R12 to R15).
package struct ConnectionIdentity: Sendable {
  package struct Limits: Sendable {
    /// A token that is older than this, in seconds, is expired.
    package var ageMax: Int64
    /// The least time between the first use of a token and that of the next one.
    package var updateInterval: Span
    package init(timeScale: Int64 = 1) {
      ageMax = max(1, 3600 / timeScale)
      updateInterval = Span(microseconds: 20 * 60 * 1_000_000 / max(1, timeScale))
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

  /// - Throws: the reason for which a push with this `authorization` is refused.
  package mutating func admit(
    authorization: String?, teams: inout APNsTeams, environment: APNsEnvironment,
    limits: Limits, leniency: APNsLeniency, now: Timestamp
  ) throws(Refusal) {
    // After an expired token the connection refuses every token.
    if wedged { throw Refusal(.expiredProviderToken, .usedWedgedConnection) }
    // The scheme must be in lower case, as in Apple's documents. HTTP would allow any case.
    guard let authorization, authorization.hasPrefix("bearer ") else {
      throw Refusal(.missingProviderToken)
    }
    let text = authorization.dropFirst(7)
    guard let token = teams.token(text, leniency), let key = teams.keys[token.keyID] else {
      throw Refusal(.invalidProviderToken)
    }
    let seconds = now.microseconds / 1_000_000
    if token.issuedAt > seconds { throw Refusal(.invalidProviderToken) }
    if seconds - token.issuedAt > limits.ageMax {
      wedged = true
      throw Refusal(.expiredProviderToken)
    }
    if let environmentOfKey = key.environment, environmentOfKey != environment {
      throw Refusal(.badEnvironmentKeyInToken)
    }
    if let bound {
      if token.team != bound.team { throw Refusal(.invalidProviderToken, .foreignProviderToken) }
      if token.keyID != bound.keyID { throw Refusal(.unrelatedKeyIDInToken) }
      if text == bound.token { return }
      if now - bound.firstUse < limits.updateInterval {
        throw Refusal(.tooManyProviderTokenUpdates)
      }
    }
    bound = Bound(
      team: token.team, keyID: token.keyID,
      bundles: bound?.bundles ?? key.bundles ?? teams.bundles[token.team] ?? [],
      token: String(text), firstUse: now)
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
