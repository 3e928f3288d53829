package import CallCore
internal import CallWire

/// The answer of APNs to one request.
package struct APNsResponse: Sendable, Equatable {
  package var status: Int
  /// Empty with 200.
  package var reason: String
  /// With 410 only: the time since which the token is gone.
  package var timestamp: Timestamp?

  package init(status: Int, reason: String = "", timestamp: Timestamp? = nil) {
    self.status = status
    self.reason = reason
    self.timestamp = timestamp
  }
}

/// The consequence of an answer of APNs for the push and for the connection.
///
/// From Apple's table of statuses and reasons ("Handling notification responses from APNs"), and from what other
/// senders have seen.
package struct APNsVerdict: Sendable, Equatable {
  package enum Push: Sendable, Equatable {
    case accepted
    case tokenGone(at: Timestamp?)
    /// APNs does not know the token in this environment.
    case badDeviceToken
    case rejected(String)
    /// - Parameter elsewhere: on another connection, if there is one.
    case retry(after: Span, elsewhere: Bool)
    /// A retry is allowed, but it is too late or useless.
    case failed(String)
  }

  package enum Connection: Sendable, Equatable {
    case keep
    /// APNs accepted its provider token: several pushes may be under way at a time.
    case proven
    case goBackToFormerToken
    /// It takes no more pushes, and closes when those under way are answered.
    case drain
  }

  package var push: Push
  package var connection: Connection = .keep
  /// An operator must act: the refusal is an error of ours or of the configuration.
  package var alarms = false
  /// APNs takes no push with this key.
  package var stopsKey = false

  /// The number of retries after "too many requests" for one push.
  static let tooManyRequestsMax = 3

  /// - Parameters:
  ///   - retries: the number of attempts of this push that followed an answer.
  ///   - timeLeft: the time until its deadline.
  ///   - jitter: a random number in 0..<1.
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
    // The encoder has omitted the optional parts already.
    case 413: return APNsVerdict(push: .rejected(reason))
    case 429: return tooMany(reason, retries: retries, jitter: jitter)
    case 500...599: return unavailable(reason, retries: retries, jitter: jitter)
    // 404 BadPath, 405 MethodNotAllowed and unknown statuses are bugs of ours.
    default: return APNsVerdict(push: .rejected(reason), alarms: true)
    }
  }

  private static func badRequest(_ reason: String, retries: Int) -> APNsVerdict {
    switch reason {
    case "BadDeviceToken": APNsVerdict(push: .badDeviceToken)
    case "IdleTimeout":
      APNsVerdict(push: once(retries, reason), connection: .drain)
    // DeviceTokenNotForTopic concerns this pair of token and topic: the wrong app or the wrong configuration. The token
    // may be valid for another topic. All other reasons are bugs of ours.
    default: APNsVerdict(push: .rejected(reason), alarms: true)
    }
  }

  private static func forbidden(_ reason: String, retries: Int) -> APNsVerdict {
    switch reason {
    // After ExpiredProviderToken the connection gives this answer to every token (pushy). If a new token is refused as
    // well, a clock is wrong.
    case "ExpiredProviderToken", "UnrelatedKeyIdInToken":
      APNsVerdict(
        push: retries == 0 ? .retry(after: .seconds(0), elsewhere: true) : .rejected(reason),
        connection: .drain, alarms: retries > 0)
    case "BadCertificate", "BadCertificateEnvironment", "Forbidden":
      APNsVerdict(push: .rejected(reason), alarms: true, stopsKey: true)
    // InvalidProviderToken, MissingProviderToken, and the key of the other environment. Apple documents the latter as
    // BadEnvironmentKeyIdInToken and sends BadEnvironmentKeyInToken.
    default: APNsVerdict(push: .rejected(reason), alarms: true)
    }
  }

  private static func tooMany(_ reason: String, retries: Int, jitter: Double) -> APNsVerdict {
    if reason == "TooManyProviderTokenUpdates" {
      return APNsVerdict(
        push: once(retries, reason), connection: .goBackToFormerToken, alarms: retries > 0)
    }
    // Too many for this one device. The waits are 1, 2 and 4 s, plus up to a half.
    guard retries < tooManyRequestsMax else { return APNsVerdict(push: .failed(reason)) }
    let delay = Double(1_000_000 << retries) * (1 + jitter / 2)
    return APNsVerdict(push: .retry(after: Span(microseconds: Int64(delay)), elsewhere: false))
  }

  private static func unavailable(_ reason: String, retries: Int, jitter: Double) -> APNsVerdict {
    // Apple asks for a wait of 15 minutes, but the call is over by then. So there is one quick retry on another
    // connection.
    let delay = Span(microseconds: Int64(50_000 + 100_000 * jitter))
    return APNsVerdict(
      push: retries == 0 ? .retry(after: delay, elsewhere: true) : .failed(reason),
      connection: reason == "Shutdown" ? .drain : .keep)
  }

  private static func once(_ retries: Int, _ reason: String) -> Push {
    retries == 0 ? .retry(after: .seconds(0), elsewhere: true) : .failed(reason)
  }
}

/// The body of a refusal, and the debug data of a GOAWAY frame: `{"reason":"...","timestamp":...}`.
package struct APNsAnswerBody: Sendable, Equatable {
  /// Letters and digits only, as in Apple's reasons, so that it can be logged. Any other text reads as empty.
  package var reason: String
  package var timestamp: Timestamp?

  /// Longer bodies are not read.
  package static let bytesMax = 4096
  private static let reasonBytesMax = 64

  /// Accepts any bytes. An unreadable body has an empty reason.
  package init(_ bytes: [UInt8]) {
    // GOAWAY data of other servers may be any text, for which no decoder is run.
    guard bytes.first == UInt8(ascii: "{"),
      bytes.count <= Self.bytesMax, let fields = PayloadValue(json: bytes)
    else {
      reason = ""
      return
    }
    let text = fields["reason"]?.text ?? ""
    reason = text.isAlphanumericASCII() && text.utf8.count <= Self.reasonBytesMax ? text : ""
    // Milliseconds since 1970.
    if case .number(let milliseconds)? = fields["timestamp"], milliseconds > 0, milliseconds < 1e15
    {
      timestamp = Timestamp(microseconds: Int64(milliseconds) * 1000)
    }
  }
}
