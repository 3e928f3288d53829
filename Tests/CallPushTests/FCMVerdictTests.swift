import CallCore
import CallPush
import Testing

@Suite("What FCM's answers mean")
struct FCMVerdictTests {
  /// Sun, 06 Nov 1994 08:49:37 GMT.
  static let now = Timestamp(microseconds: 784_111_777_000_000)

  struct Row: Sendable, CustomTestStringConvertible {
    var name: String
    var answer: ProviderAnswer
    var context: AttemptContext
    var verdict: AttemptVerdict
    var testDescription: String { name }

    init(
      _ name: String, _ status: Int, body: String = "", retryAfter: String? = nil,
      attempt: Int = 1, renewed: Bool = false, isUrgent: Bool = true, seconds: Int64 = 30,
      _ verdict: AttemptVerdict
    ) {
      self.name = name
      self.verdict = verdict
      answer = ProviderAnswer(
        status: status, headers: retryAfter.map { ["retry-after": $0] } ?? [:],
        body: Array(body.utf8))
      context = AttemptContext(now: now, deadline: now + .seconds(seconds))
      (context.attempt, context.renewed, context.isUrgent) = (attempt, renewed, isUrgent)
    }
  }

  static func error(_ status: String, fcm: String? = nil, message: String = "m") -> String {
    let detail =
      fcm.map {
        #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#($0)"}"#
      } ?? ""
    return
      #"{"error":{"code":1,"message":"\#(message)","status":"\#(status)","details":[\#(detail)]}}"#
  }

  static func violations(_ fields: String..., fcm: Bool = true) -> String {
    let list = fields.map { #"{"field":"\#($0)","description":"d"}"# }.joined(separator: ",")
    let own =
      fcm
      ? #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"#
        + #""INVALID_ARGUMENT"},"# : ""
    return #"{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT","details":[\#(own)"#
      + #"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[\#(list)]}]}}"#
  }

  static let gone = AttemptVerdict.done(.tokenGone(at: nil))
  static let invalidToken = AttemptVerdict.tokenRefused(TokenRefusal("INVALID_ARGUMENT"))
  static func rejected(_ reason: String) -> AttemptVerdict { .done(.rejected(reason: reason)) }
  static func failed(_ reason: String) -> AttemptVerdict { .done(.failed(reason: reason)) }
  static func again(_ milliseconds: Int64, _ reason: String) -> AttemptVerdict {
    .retry(after: .milliseconds(milliseconds), reason: reason)
  }

  static let accepted: [Row] = [
    Row(
      "200", 200, body: #"{"name":"projects/p/messages/1"}"#,
      .done(.accepted, name: "projects/p/messages/1")),
    Row("200 without a body", 200, .done(.accepted)),
    Row("200 of nonsense", 200, body: "<html>", .done(.accepted)),
    Row("200 with a name over lines", 200, body: #"{"name":"a\nb"}"#, .done(.accepted)),
  ]

  static func badArgument(_ message: String) -> String {
    error("INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT", message: message)
  }

  static let invalid: [Row] = [
    Row(
      "400 of the token", 400,
      body: badArgument("The registration token is not a valid FCM registration token"),
      invalidToken),
    Row("400, field message.token", 400, body: violations("message.token"), invalidToken),
    Row(
      "400, a field of the payload", 400, body: violations("message.data[0].value"),
      rejected("INVALID_ARGUMENT: message.data[0].value")),
    Row(
      "400, token and another field", 400, body: violations("message.token", "message.android.ttl"),
      rejected("INVALID_ARGUMENT: message.android.ttl")),
    Row(
      "400, a field without FCM's own code", 400, body: violations("message.data", fcm: false),
      rejected("INVALID_ARGUMENT: message.data")),
    Row(
      "400, message too big", 400, body: badArgument("Android message is too big"),
      rejected("INVALID_ARGUMENT")),
    Row(
      "400, a field that quotes something", 400, body: violations("x y secret!"),
      rejected("INVALID_ARGUMENT")),
    Row("400 of nonsense", 400, body: "{", again(500, "HTTP 400")),
    Row("400 of nonsense, a notice", 400, body: "{", isUrgent: false, rejected("HTTP 400")),
    Row(
      "400 FAILED_PRECONDITION", 400, body: error("FAILED_PRECONDITION"),
      again(500, "FAILED_PRECONDITION")),
  ]

  static let expired = error("UNAUTHENTICATED")
  static let denied = error("PERMISSION_DENIED")

  static let refused: [Row] = [
    Row("401 expired", 401, body: expired, .renew(reason: "UNAUTHENTICATED")),
    Row("401 after a renewal", 401, body: expired, renewed: true, again(500, "UNAUTHENTICATED")),
    Row(
      "401 after a renewal, a notice", 401, body: expired, renewed: true, isUrgent: false,
      rejected("UNAUTHENTICATED")),
    Row("401 of nonsense", 401, body: "no", .renew(reason: "HTTP 401")),
    Row(
      "401 THIRD_PARTY_AUTH_ERROR", 401,
      body: error("UNAUTHENTICATED", fcm: "THIRD_PARTY_AUTH_ERROR"),
      again(500, "THIRD_PARTY_AUTH_ERROR")),
    Row(
      "403 SENDER_ID_MISMATCH", 403, body: error("PERMISSION_DENIED", fcm: "SENDER_ID_MISMATCH"),
      .tokenRefused(TokenRefusal("SENDER_ID_MISMATCH"))),
    Row("403", 403, body: denied, again(500, "PERMISSION_DENIED")),
    Row("403, a notice", 403, body: denied, isUrgent: false, rejected("PERMISSION_DENIED")),
    Row("404 UNREGISTERED", 404, body: error("NOT_FOUND", fcm: "UNREGISTERED"), gone),
    Row("404 of a wrong project", 404, body: error("NOT_FOUND"), again(500, "NOT_FOUND")),
    Row("404 of nonsense", 404, body: "<html>", again(500, "HTTP 404")),
    Row("405", 405, again(500, "HTTP 405")),
    Row("405, a notice", 405, isUrgent: false, rejected("HTTP 405")),
    Row("410", 410, again(500, "HTTP 410")),
    Row("413", 413, rejected("HTTP 413")),
    Row("425", 425, attempt: 2, again(1000, "HTTP 425")),
    Row("301 is not followed", 301, again(500, "HTTP 301")),
    Row("301, a notice", 301, isUrgent: false, rejected("HTTP 301")),
    Row("a word that is none", 403, body: error("token abc:def"), again(500, "HTTP 403")),
  ]

  static let quota = error("RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED")
  static let unavailable = error("UNAVAILABLE", fcm: "UNAVAILABLE")

  static let busy: [Row] = [
    Row("429 with seconds", 429, body: quota, retryAfter: "7", again(7000, "QUOTA_EXCEEDED")),
    Row(
      "429 with a date", 429, body: quota, retryAfter: "Sun, 06 Nov 1994 08:49:47 GMT",
      again(10_000, "QUOTA_EXCEEDED")),
    Row(
      "429 without a time is a minute", 429, body: quota, isUrgent: false, seconds: 61,
      again(60_000, "QUOTA_EXCEEDED")),
    Row(
      "429 without a time, a ring: a third of what is left", 429, body: quota,
      again(10_000, "QUOTA_EXCEEDED")),
    Row(
      "429 for too long, a notice", 429, retryAfter: "30", isUrgent: false, failed("HTTP 429")),
    Row(
      "429 with a time that is none", 429, retryAfter: "soon", isUrgent: false, seconds: 90,
      again(60_000, "HTTP 429")),
    Row("503", 503, body: unavailable, again(500, "UNAVAILABLE")),
    Row("503, the third time", 503, body: unavailable, attempt: 3, again(2000, "UNAVAILABLE")),
    Row("503 with seconds", 503, retryAfter: "3", again(3000, "HTTP 503")),
    Row(
      "503 with a date that has passed", 503, retryAfter: "Sun, 06 Nov 1994 08:00:00 GMT",
      again(100, "HTTP 503")),
    Row("503 beyond the deadline", 503, retryAfter: "31", again(10_000, "HTTP 503")),
    Row(
      "503 for an hour, soon before the deadline", 503, retryAfter: "3600", seconds: 1,
      again(500, "HTTP 503")),
    Row(
      "503 beyond the deadline, a notice", 503, retryAfter: "31", isUrgent: false,
      failed("HTTP 503")),
    Row("503, the sixth time", 503, attempt: 6, seconds: 600, again(4000, "HTTP 503")),
    Row(
      "503, a notice, once too often", 503, attempt: 6, isUrgent: false, seconds: 600,
      failed("HTTP 503")),
    Row("503 with no time left", 503, seconds: 0, failed("HTTP 503")),
    Row("500", 500, body: error("INTERNAL", fcm: "INTERNAL"), again(500, "INTERNAL")),
    Row(
      "500 UNSPECIFIED_ERROR", 500, body: error("UNKNOWN", fcm: "UNSPECIFIED_ERROR"), attempt: 2,
      again(1000, "UNSPECIFIED_ERROR")),
    Row("502 of a proxy", 502, body: "<html>", again(500, "HTTP 502")),
    Row("504", 504, again(500, "HTTP 504")),
    Row("408", 408, again(500, "HTTP 408")),
  ]

  @Test(arguments: accepted + invalid + refused + busy) func theTable(_ row: Row) {
    #expect(FCMVerdict.judge(.answer(row.answer), row.context) == row.verdict)
  }

  @Test func withoutAnAnswer() {
    let context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(30))
    #expect(
      FCMVerdict.judge(.notSent("no connection"), context) == Self.again(500, "no connection"))
    #expect(FCMVerdict.judge(.unknown("lost"), context) == context.inDoubt("lost"))
  }

  @Test func noBodyTraps() {
    let deep = String(repeating: "[", count: 20_000)
    let bodies = [
      deep, #"{"error":"# + deep, #"{"error":{"details":[null]}}"#, #"{"error":{"details":7}}"#,
      #"{"error":{"details":[{"@type":7}]}}"#, "\u{0}", "null", "[]", "\"",
      #"{"error":{"status":{}}}"#, String(repeating: "a", count: 100_000),
    ]
    let context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(30))
    for status in [200, 400, 401, 403, 404, 418, 429, 500, 503, 599, 0, 99, 700] {
      for body in bodies {
        let answer = ProviderAnswer(status: status, body: Array(body.utf8))
        let verdict = FCMVerdict.judge(.answer(answer), context)
        #expect(verdict != Self.gone)
        if case .tokenRefused = verdict { Issue.record("\(status) \(body.prefix(40))") }
      }
    }
  }
}
