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
    let connection: APNsVerdict.Connection
    let alarms: Bool
    var testDescription: String { "\(status) \(reason)" }

    init(
      _ status: Int, _ reason: String, _ push: APNsVerdict.Push,
      _ connection: APNsVerdict.Connection = .keep, alarms: Bool = false
    ) {
      (self.status, self.reason, self.push) = (status, reason, push)
      (self.connection, self.alarms) = (connection, alarms)
    }
  }

  /// A retry on another connection.
  private static func elsewhere(_ milliseconds: Int64) -> APNsVerdict.Push {
    .retry(after: .milliseconds(milliseconds), elsewhere: true)
  }

  static let first: [Row] =
    [
      Row(200, "", .accepted, .proven),
      Row(400, "BadDeviceToken", .tokenRefused("BadDeviceToken")),
      Row(400, "DeviceTokenNotForTopic", .tokenRefused("DeviceTokenNotForTopic"), alarms: true),
      Row(400, "IdleTimeout", elsewhere(0), .drain),
      Row(403, "ExpiredProviderToken", elsewhere(0), .drain),
      Row(403, "UnrelatedKeyIdInToken", elsewhere(0), .drain),
      Row(410, "Unregistered", .tokenGone(at: nil)),
      Row(410, "ExpiredToken", .tokenGone(at: nil)),
      Row(413, "PayloadTooLarge", .rejected("PayloadTooLarge")),
      Row(429, "TooManyRequests", .retry(after: .milliseconds(1000), elsewhere: false)),
      Row(429, "TooManyProviderTokenUpdates", elsewhere(0), .goBackToFormerToken),
      Row(500, "InternalServerError", elsewhere(50), .drain),
      Row(503, "ServiceUnavailable", elsewhere(50), .drain),
      Row(503, "Shutdown", elsewhere(50), .drain),
    ]
    + [
      "BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic",
      "DuplicateHeaders", "InvalidPushType", "MissingDeviceToken", "MissingTopic", "PayloadEmpty",
      "TopicDisallowed", "SomethingNew",
    ].map { Row(400, $0, .rejected($0), alarms: true) }
    + [
      "BadCertificate", "BadCertificateEnvironment", "Forbidden", "InvalidProviderToken",
      "MissingProviderToken", "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken",
      "SomethingNew",
    ].map { Row(403, $0, elsewhere(0), .drain, alarms: true) }
    + [(404, "BadPath"), (405, "MethodNotAllowed"), (418, "SomethingNew"), (302, "Elsewhere")]
    .map { Row($0, $1, elsewhere(50), alarms: true) }

  static let again: [Row] =
    [
      Row(400, "IdleTimeout", elsewhere(500), .drain),
      Row(429, "TooManyRequests", .retry(after: .milliseconds(2000), elsewhere: false)),
      Row(429, "TooManyProviderTokenUpdates", elsewhere(500), .goBackToFormerToken, alarms: true),
    ]
    + ["ExpiredProviderToken", "UnrelatedKeyIdInToken", "InvalidProviderToken", "Forbidden"]
    .map { Row(403, $0, elsewhere(500), .drain, alarms: true) }
    + [(500, "InternalServerError"), (503, "ServiceUnavailable"), (503, "Shutdown")]
    .map { Row($0, $1, elsewhere(500), .drain) }

  private func verdict(
    _ status: Int, _ reason: String, isUrgent: Bool = true, retries: Int = 0,
    timeLeft: Span = .seconds(30), chance: UInt64 = 0
  ) -> APNsVerdict {
    .of(
      APNsResponse(status: status, reason: reason), isUrgent: isUrgent, retries: retries,
      timeLeft: timeLeft, chance: chance)
  }

  private func check(_ row: Row, retries: Int) {
    let verdict = verdict(row.status, row.reason, retries: retries)
    #expect(verdict.push == row.push)
    #expect(verdict.connection == row.connection)
    #expect(verdict.alarms == row.alarms)
  }

  @Test("a first answer", arguments: first) func firstAnswer(_ row: Row) { check(row, retries: 0) }

  @Test("the answer to a retry", arguments: again)
  func secondAnswer(_ row: Row) { check(row, retries: 1) }

  @Test("a push that changes what rings is tried until its deadline", arguments: again)
  func triedOn(_ row: Row) {
    var left = Span.seconds(30)
    var retries = 0
    while case .retry(let after, _) = verdict(
      row.status, row.reason, retries: retries, timeLeft: left
    ).push, retries < 100 {
      left = Span(microseconds: left.microseconds - after.microseconds)
      retries += 1
    }
    #expect((8...20).contains(retries))
    #expect(left <= .milliseconds(500), "the last attempt is close to the end")
  }

  @Test("a notice is retried three times", arguments: again) func noticesEnd(_ row: Row) {
    func push(_ retries: Int) -> APNsVerdict.Push {
      verdict(
        row.status, row.reason, isUrgent: false, retries: retries, timeLeft: .seconds(3600)
      ).push
    }
    for retries in 0...2 {
      if case .retry = push(retries) { continue }
      Issue.record("\(push(retries)) after \(retries)")
    }
    #expect(push(3) == .failed(row.reason))
  }

  @Test("410 hands on since when the token is gone") func goneSince() {
    let at = Timestamp(microseconds: 1_700_000_000_000_000)
    let verdict = APNsVerdict.of(
      APNsResponse(status: 410, reason: "Unregistered", timestamp: at), retries: 0,
      timeLeft: .seconds(1), chance: 0)
    #expect(verdict.push == .tokenGone(at: at))
  }

  @Test("too many requests for one device: 1, 2 and then 4 seconds, up to a quarter less")
  func tooManyRequests() {
    for (retries, chance, milliseconds) in [
      (0, 250_000, 750), (1, 0, 2000), (2, 0, 4000), (3, 0, 4000),
    ]
      as [(Int, UInt64, Int64)]
    {
      let push = verdict(429, "TooManyRequests", retries: retries, chance: chance).push
      #expect(push == .retry(after: .milliseconds(milliseconds), elsewhere: false))
    }
  }

  @Test("no retry begins after the push's time") func noRetryTooLate() {
    for (status, reason) in [
      (429, "TooManyRequests"), (503, "ServiceUnavailable"), (403, "ExpiredProviderToken"),
    ] {
      #expect(verdict(status, reason, timeLeft: .seconds(0)).push == .failed(reason))
    }
    let late = verdict(429, "TooManyRequests", isUrgent: false, timeLeft: .milliseconds(900))
    #expect(late.push == .failed("TooManyRequests"))
  }

  @Test("a 400 without a reason that can be read says nothing of the token or the push")
  func noReason() {
    let verdict = verdict(400, "")
    #expect(verdict.push == .retry(after: .milliseconds(50), elsewhere: true))
    #expect(verdict.connection == .keep && verdict.alarms)
    #expect(self.verdict(400, "", timeLeft: .seconds(0)).push == .failed("status 400"))
  }
}

@Suite("APNs: bodies of refusals")
struct APNsAnswerBodyTests {
  @Test("reason and timestamp") func both() {
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
