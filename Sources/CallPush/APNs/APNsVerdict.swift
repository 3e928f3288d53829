package import CallCore

/// What APNs said to one request.
package struct APNsResponse: Sendable, Equatable {
  package var status: Int
  /// Empty with 200.
  package var reason: String
  /// With 410 only: since when the token is known to be gone.
  package var timestamp: Timestamp?

  package init(status: Int, reason: String = "", timestamp: Timestamp? = nil) {
    self.status = status
    self.reason = reason
    self.timestamp = timestamp
  }
}

/// What follows from an answer of APNs, for the push and for the connection that it came on.
///
/// Apple's table of statuses and reasons ("Handling notification responses from APNs"), and what the
/// field knows beyond it.
package struct APNsVerdict: Sendable, Equatable {
  package enum Push: Sendable, Equatable {
    case accepted
    case tokenGone(at: Timestamp?)
    /// The token is none of this environment.
    case badDeviceToken
    case rejected(String)
    /// - Parameter elsewhere: on another connection, if there is one.
    case retry(after: Span, elsewhere: Bool)
    /// Retrying is allowed, but not worth it or not in time.
    case failed(String)
  }

  package enum Connection: Sendable, Equatable {
    case keep
    /// Its provider token is good: more than one push at a time may be under way.
    case proven
    case goBackToFormerToken
    /// No more pushes; those under way are answered, then it closes.
    case drain
  }

  package var push: Push
  package var connection: Connection = .keep
  /// Somebody must look: our mistake, or one of the configuration.
  package var alarms = false
  /// No push with this key will be taken.
  package var stopsKey = false

  /// How often APNs may say "too many requests" for one push.
  static let tooManyRequestsMax = 3

  /// - Parameters:
  ///   - retries: how often an answer has led to another attempt of this push.
  ///   - timeLeft: until nobody wants it.
  ///   - jitter: 0..<1, by chance.
  package static func of(
    _ response: APNsResponse, retries: Int, timeLeft: Span, jitter: Double
  ) -> APNsVerdict {
    var verdict = verdict(response, retries: retries, jitter: jitter)
    if case .retry(let after, _) = verdict.push, after >= timeLeft {
      verdict.push = .failed(response.reason)
    }
    return verdict
  }

  private static func verdict(
    _ response: APNsResponse, retries: Int, jitter: Double
  ) -> APNsVerdict {
    let reason = response.reason.isEmpty ? "status \(response.status)" : response.reason
    switch response.status {
    case 200: return APNsVerdict(push: .accepted, connection: .proven)
    case 400: return badRequest(reason, retries: retries)
    case 403: return forbidden(reason, retries: retries)
    case 410: return APNsVerdict(push: .tokenGone(at: response.timestamp))
    // The payload is the gateway's matter: it sheds what is optional before it sends.
    case 413: return APNsVerdict(push: .rejected(reason))
    case 429: return tooMany(reason, retries: retries, jitter: jitter)
    case 500...599: return unavailable(reason, retries: retries, jitter: jitter)
    // 404 BadPath and 405 MethodNotAllowed are our bugs, and so is what nobody foresaw.
    default: return APNsVerdict(push: .rejected(reason), alarms: true)
    }
  }

  private static func badRequest(_ reason: String, retries: Int) -> APNsVerdict {
    switch reason {
    case "BadDeviceToken": APNsVerdict(push: .badDeviceToken)
    case "IdleTimeout":
      APNsVerdict(push: once(retries, reason), connection: .drain)
    // DeviceTokenNotForTopic is about this pair of token and topic: the wrong app, or the wrong
    // configuration. The token may be good for another topic. The others are our bugs.
    default: APNsVerdict(push: .rejected(reason), alarms: true)
    }
  }

  private static func forbidden(_ reason: String, retries: Int) -> APNsVerdict {
    switch reason {
    case "ExpiredProviderToken":
      // The connection answers so from now on, whatever token it is shown (pushy). A second time,
      // with a token that has just been made, means that a clock is wrong.
      APNsVerdict(
        push: retries == 0 ? .retry(after: .seconds(0), elsewhere: true) : .rejected(reason),
        connection: .drain, alarms: retries > 0)
    case "UnrelatedKeyIdInToken":
      APNsVerdict(
        push: retries == 0 ? .retry(after: .seconds(0), elsewhere: true) : .rejected(reason),
        connection: .drain, alarms: retries > 0)
    case "BadCertificate", "BadCertificateEnvironment", "Forbidden":
      APNsVerdict(push: .rejected(reason), alarms: true, stopsKey: true)
    // InvalidProviderToken, MissingProviderToken; and the key of the other environment, which Apple
    // documents as BadEnvironmentKeyIdInToken and sends as BadEnvironmentKeyInToken.
    default: APNsVerdict(push: .rejected(reason), alarms: true)
    }
  }

  private static func tooMany(_ reason: String, retries: Int, jitter: Double) -> APNsVerdict {
    if reason == "TooManyProviderTokenUpdates" {
      return APNsVerdict(
        push: once(retries, reason), connection: .goBackToFormerToken, alarms: retries > 0)
    }
    // Too many to this one device. A second, two, four, and up to a half more.
    guard retries < tooManyRequestsMax else { return APNsVerdict(push: .failed(reason)) }
    let delay = Double(1_000_000 << retries) * (1 + jitter / 2)
    return APNsVerdict(
      push: .retry(after: Span(microseconds: Int64(delay)), elsewhere: false))
  }

  private static func unavailable(_ reason: String, retries: Int, jitter: Double) -> APNsVerdict {
    // Apple wants 15 minutes of patience, and a call is over by then: one quick try elsewhere.
    let delay = Span(microseconds: Int64(50_000 + 100_000 * jitter))
    return APNsVerdict(
      push: retries == 0 ? .retry(after: delay, elsewhere: true) : .failed(reason),
      connection: reason == "Shutdown" ? .drain : .keep)
  }

  private static func once(_ retries: Int, _ reason: String) -> Push {
    retries == 0 ? .retry(after: .seconds(0), elsewhere: true) : .failed(reason)
  }
}
