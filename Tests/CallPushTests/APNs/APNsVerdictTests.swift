import CallCore
import CallPush
import Testing

@Suite("APNs: what each answer means")
struct APNsVerdictTests {
  /// A row of Apple's table and what we do, as documented in `docs/`.
  struct Row: Sendable, CustomTestStringConvertible {
    let status: Int
    let reason: String
    let push: APNsVerdict.Push
    var connection = APNsVerdict.Connection.keep
    var alarms = false
    var stopsKey = false
    var testDescription: String { "\(status) \(reason)" }
  }

  static let first: [Row] =
    [
      Row(status: 200, reason: "", push: .accepted, connection: .proven),
      Row(status: 400, reason: "BadDeviceToken", push: .badDeviceToken),
      Row(
        status: 400, reason: "IdleTimeout", push: .retry(after: .seconds(0), elsewhere: true),
        connection: .drain),
      Row(
        status: 403, reason: "ExpiredProviderToken",
        push: .retry(after: .seconds(0), elsewhere: true), connection: .drain),
      Row(
        status: 403, reason: "UnrelatedKeyIdInToken",
        push: .retry(after: .seconds(0), elsewhere: true), connection: .drain),
      Row(status: 410, reason: "Unregistered", push: .tokenGone(at: nil)),
      Row(status: 410, reason: "ExpiredToken", push: .tokenGone(at: nil)),
      Row(status: 413, reason: "PayloadTooLarge", push: .rejected("PayloadTooLarge")),
      Row(
        status: 429, reason: "TooManyRequests",
        push: .retry(after: .milliseconds(1000), elsewhere: false)),
      Row(
        status: 429, reason: "TooManyProviderTokenUpdates",
        push: .retry(after: .seconds(0), elsewhere: true), connection: .goBackToFormerToken),
      Row(
        status: 500, reason: "InternalServerError",
        push: .retry(after: .milliseconds(50), elsewhere: true)),
      Row(
        status: 503, reason: "ServiceUnavailable",
        push: .retry(after: .milliseconds(50), elsewhere: true)),
      Row(
        status: 503, reason: "Shutdown", push: .retry(after: .milliseconds(50), elsewhere: true),
        connection: .drain),
    ]
    + [
      "BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic",
      "DuplicateHeaders", "InvalidPushType", "MissingDeviceToken", "MissingTopic", "PayloadEmpty",
      "TopicDisallowed", "DeviceTokenNotForTopic", "SomethingNew",
    ].map { Row(status: 400, reason: $0, push: .rejected($0), alarms: true) }
    + ["BadCertificate", "BadCertificateEnvironment", "Forbidden"].map {
      Row(status: 403, reason: $0, push: .rejected($0), alarms: true, stopsKey: true)
    }
    + [
      "InvalidProviderToken", "MissingProviderToken", "BadEnvironmentKeyIdInToken",
      "BadEnvironmentKeyInToken", "SomethingNew",
    ].map { Row(status: 403, reason: $0, push: .rejected($0), alarms: true) }
    + [(404, "BadPath"), (405, "MethodNotAllowed"), (418, "SomethingNew"), (302, "Elsewhere")].map {
      Row(status: $0, reason: $1, push: .rejected($1), alarms: true)
    }

  static let again: [Row] = [
    Row(status: 400, reason: "IdleTimeout", push: .failed("IdleTimeout"), connection: .drain),
    Row(
      status: 403, reason: "ExpiredProviderToken", push: .rejected("ExpiredProviderToken"),
      connection: .drain, alarms: true),
    Row(
      status: 403, reason: "UnrelatedKeyIdInToken", push: .rejected("UnrelatedKeyIdInToken"),
      connection: .drain, alarms: true),
    Row(
      status: 429, reason: "TooManyRequests",
      push: .retry(after: .milliseconds(2000), elsewhere: false)),
    Row(
      status: 429, reason: "TooManyProviderTokenUpdates",
      push: .failed("TooManyProviderTokenUpdates"), connection: .goBackToFormerToken, alarms: true),
    Row(status: 500, reason: "InternalServerError", push: .failed("InternalServerError")),
    Row(status: 503, reason: "ServiceUnavailable", push: .failed("ServiceUnavailable")),
    Row(status: 503, reason: "Shutdown", push: .failed("Shutdown"), connection: .drain),
  ]

  private func check(_ row: Row, retries: Int) {
    let verdict = APNsVerdict.of(
      APNsResponse(status: row.status, reason: row.reason), retries: retries,
      timeLeft: .seconds(30), jitter: 0)
    #expect(verdict.push == row.push)
    #expect(verdict.connection == row.connection)
    #expect(verdict.alarms == row.alarms)
    #expect(verdict.stopsKey == row.stopsKey)
  }

  @Test("a first answer", arguments: first)
  func firstAnswer(_ row: Row) { check(row, retries: 0) }

  @Test("the answer to a retry", arguments: again)
  func secondAnswer(_ row: Row) { check(row, retries: 1) }

  @Test("410 hands on since when the token is gone")
  func goneSince() {
    let at = Timestamp(microseconds: 1_700_000_000_000_000)
    let verdict = APNsVerdict.of(
      APNsResponse(status: 410, reason: "Unregistered", timestamp: at), retries: 0,
      timeLeft: .seconds(1), jitter: 0)
    #expect(verdict.push == .tokenGone(at: at))
  }

  @Test("too many requests: 1, 2 and 4 seconds, up to a half more, then no more")
  func tooManyRequests() {
    func push(_ retries: Int, _ jitter: Double) -> APNsVerdict.Push {
      APNsVerdict.of(
        APNsResponse(status: 429, reason: "TooManyRequests"), retries: retries,
        timeLeft: .seconds(30), jitter: jitter
      ).push
    }
    #expect(push(0, 0.5) == .retry(after: .milliseconds(1250), elsewhere: false))
    #expect(push(1, 0) == .retry(after: .milliseconds(2000), elsewhere: false))
    #expect(push(2, 0) == .retry(after: .milliseconds(4000), elsewhere: false))
    #expect(push(3, 0) == .failed("TooManyRequests"))
  }

  @Test("no retry begins after the push's time")
  func noRetryTooLate() {
    for (status, reason) in [
      (429, "TooManyRequests"), (503, "ServiceUnavailable"), (403, "ExpiredProviderToken"),
    ] {
      let verdict = APNsVerdict.of(
        APNsResponse(status: status, reason: reason), retries: 0, timeLeft: .seconds(0), jitter: 0)
      #expect(verdict.push == .failed(reason))
    }
    let late = APNsVerdict.of(
      APNsResponse(status: 429, reason: "TooManyRequests"), retries: 0,
      timeLeft: .milliseconds(900), jitter: 0)
    #expect(late.push == .failed("TooManyRequests"))
  }

  @Test("a status without a reason has words, too")
  func noReason() {
    let verdict = APNsVerdict.of(
      APNsResponse(status: 400), retries: 0, timeLeft: .seconds(1), jitter: 0)
    #expect(verdict.push == .rejected("status 400"))
  }
}

@Suite("APNs: bodies of refusals")
struct APNsAnswerBodyTests {
  @Test("reason and timestamp")
  func both() {
    let body = APNsAnswerBody(Array(#"{"reason":"Unregistered","timestamp":1700000000123}"#.utf8))
    #expect(body.reason == "Unregistered")
    #expect(body.timestamp == Timestamp(microseconds: 1_700_000_000_123_000))
  }

  @Test(
    "what cannot be read is an empty reason",
    arguments: [
      "", "{", "null", "[]", "{}", #"{"reason":7}"#, #"{"reason":"a b"}"#, #"{"reason":"\n"}"#,
      #"{"reason":"\#(String(repeating: "a", count: 65))"}"#, "\u{0}\u{1}", "text of a proxy",
      #"{"reason":"\#(String(repeating: "a", count: 5000))"}"#,
      // The decoder traps where these end.
      "{\"a\":" + String(repeating: "[", count: 511), String(repeating: "{\"a\":", count: 512),
    ])
  func unreadable(_ text: String) {
    #expect(APNsAnswerBody(Array(text.utf8)).reason == "")
  }

  @Test("a timestamp out of all bounds is none", arguments: ["-1", "0", "1e300", "1e15"])
  func badTimestamps(_ number: String) {
    let body = APNsAnswerBody(Array(#"{"reason":"Unregistered","timestamp":\#(number)}"#.utf8))
    #expect(body.reason == "Unregistered")
    #expect(body.timestamp == nil)
  }
}
