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
    /// APNs does not know the token in this environment, or it is another app's.
    case tokenRefused(String)
    case rejected(String)
    /// - Parameter elsewhere: on another connection, if there is one.
    case retry(after: Span, elsewhere: Bool)
    /// A retry is allowed, but it is too late, or a notice has had enough of them.
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

  /// The retries of a notice. A push that changes what rings is retried until its deadline.
  static let noticeRetriesMax = 3

  /// - Parameters:
  ///   - isUrgent: as `PushMessage.isUrgent`.
  ///   - retries: the number of attempts of this push that followed an answer.
  ///   - timeLeft: the time until its deadline.
  ///   - chance: a random number, for jitter.
  package static func of(
    _ response: APNsResponse, isUrgent: Bool = true, retries: Int, timeLeft: Span, chance: UInt64
  ) -> APNsVerdict {
    let reason = response.reason.isEmpty ? "status \(response.status)" : response.reason
    var verdict = verdict(
      response, reason, pauses: Pauses(retries: retries, chance: chance))
    guard case .retry(var after, let elsewhere) = verdict.push else { return verdict }
    if isUrgent { after = min(after, AttemptContext.longestPause(timeLeft: timeLeft)) }
    let isOver = after >= timeLeft || !isUrgent && retries >= noticeRetriesMax
    verdict.push = isOver ? .failed(reason) : .retry(after: after, elsewhere: elsewhere)
    return verdict
  }

  /// The pauses before the retries of one push.
  private struct Pauses {
    var retries: Int
    var chance: UInt64

    /// 50 to 150 ms, since another connection often works. Then as for the other providers. Apple asks for 15 minutes
    /// after a 5xx, but the call is over by then.
    var short: Span {
      retries == 0 ? Span(microseconds: 50_000 + Int64(chance % 100_001)) : growing
    }

    /// None before the first retry.
    var none: Span { retries == 0 ? .zero : growing }

    /// 1, 2 and then 4 s, less up to a quarter.
    var long: Span { Backoff(.seconds(1), to: .seconds(4)).pause(after: retries, chance: chance) }

    private var growing: Span {
      AttemptContext.urgentBackoff.pause(after: retries - 1, chance: chance)
    }
  }

  private static func verdict(
    _ response: APNsResponse, _ reason: String, pauses: Pauses
  ) -> APNsVerdict {
    switch response.status {
    case 200: APNsVerdict(push: .accepted, connection: .proven)
    case 400 where !response.reason.isEmpty: badRequest(reason, pauses)
    // After ExpiredProviderToken the connection gives this answer to every token (pushy). All others are refusals of our
    // key: InvalidProviderToken, MissingProviderToken, BadCertificate, Forbidden, and the key of the other environment,
    // which Apple documents as BadEnvironmentKeyIdInToken and sends as BadEnvironmentKeyInToken.
    case 403:
      APNsVerdict(
        push: .retry(after: pauses.none, elsewhere: true), connection: .drain,
        alarms: pauses.retries > 0 || !isTokenTooOld(reason))
    case 410: APNsVerdict(push: .tokenGone(at: response.timestamp))
    // The encoder has omitted the optional parts already.
    case 413: APNsVerdict(push: .rejected(reason))
    case 429: tooMany(reason, pauses)
    case 500...599:
      APNsVerdict(push: .retry(after: pauses.short, elsewhere: true), connection: .drain)
    // 404 BadPath, 405 MethodNotAllowed, unknown statuses, and a 400 without a reason are bugs of ours, or a server in
    // between.
    default:
      APNsVerdict(push: .retry(after: pauses.short, elsewhere: true), alarms: true)
    }
  }

  private static func badRequest(_ reason: String, _ pauses: Pauses) -> APNsVerdict {
    switch reason {
    case "BadDeviceToken": APNsVerdict(push: .tokenRefused(reason))
    // The token and the topic do not belong together: the registration's fault, or the configuration's.
    case "DeviceTokenNotForTopic": APNsVerdict(push: .tokenRefused(reason), alarms: true)
    case "IdleTimeout":
      APNsVerdict(push: .retry(after: pauses.none, elsewhere: true), connection: .drain)
    // Bugs of ours: the same push gets the same answer.
    default: APNsVerdict(push: .rejected(reason), alarms: true)
    }
  }

  /// A connection with a new provider token may be accepted.
  private static func isTokenTooOld(_ reason: String) -> Bool {
    reason == "ExpiredProviderToken" || reason == "UnrelatedKeyIdInToken"
  }

  private static func tooMany(_ reason: String, _ pauses: Pauses) -> APNsVerdict {
    if reason == "TooManyProviderTokenUpdates" {
      return APNsVerdict(
        push: .retry(after: pauses.none, elsewhere: true), connection: .goBackToFormerToken,
        alarms: pauses.retries > 0)
    }
    // Too many for this one device.
    return APNsVerdict(push: .retry(after: pauses.long, elsewhere: false))
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
