import CallCore
import CallPush
import Testing

@Suite("What FCM's answers mean")
struct FCMVerdictTests {
  /// Sun, 06 Nov 1994 08:49:37 GMT.
  static let now = Timestamp(microseconds: 784_111_777_000_000)

  struct Row: Sendable, CustomTestStringConvertible {
    var name: String
    var status: Int
    var body = ""
    var retryAfter: String?
    var attempt = 1
    var renewed = false
    var isUrgent = true
    var seconds: Int64 = 30
    var verdict: AttemptVerdict
    var testDescription: String { name }
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
      name: "200", status: 200, body: #"{"name":"projects/p/messages/1"}"#,
      verdict: .done(.accepted, name: "projects/p/messages/1")),
    Row(name: "200 without a body", status: 200, verdict: .done(.accepted)),
    Row(name: "200 of nonsense", status: 200, body: "<html>", verdict: .done(.accepted)),
    Row(
      name: "200 with a name over lines", status: 200, body: #"{"name":"a\nb"}"#,
      verdict: .done(.accepted)),
  ]

  static let invalid: [Row] = [
    Row(
      name: "400 of the token", status: 400,
      body: error(
        "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT",
        message: "The registration token is not a valid FCM registration token"),
      verdict: invalidToken),
    Row(
      name: "400, field message.token", status: 400, body: violations("message.token"),
      verdict: invalidToken),
    Row(
      name: "400, a field of the payload", status: 400, body: violations("message.data[0].value"),
      verdict: rejected("INVALID_ARGUMENT: message.data[0].value")),
    Row(
      name: "400, token and another field", status: 400,
      body: violations("message.token", "message.android.ttl"),
      verdict: rejected("INVALID_ARGUMENT: message.android.ttl")),
    Row(
      name: "400, a field without FCM's own code", status: 400,
      body: violations("message.data", fcm: false),
      verdict: rejected("INVALID_ARGUMENT: message.data")),
    Row(
      name: "400, message too big", status: 400,
      body: error(
        "INVALID_ARGUMENT", fcm: "INVALID_ARGUMENT", message: "Android message is too big"),
      verdict: rejected("INVALID_ARGUMENT")),
    Row(
      name: "400, a field that quotes something", status: 400, body: violations("x y secret!"),
      verdict: rejected("INVALID_ARGUMENT")),
    Row(name: "400 of nonsense", status: 400, body: "{", verdict: again(500, "HTTP 400")),
    Row(
      name: "400 of nonsense, a notice", status: 400, body: "{", isUrgent: false,
      verdict: rejected("HTTP 400")),
    Row(
      name: "400 FAILED_PRECONDITION", status: 400, body: error("FAILED_PRECONDITION"),
      verdict: again(500, "FAILED_PRECONDITION")),
  ]

  static let refused: [Row] = [
    Row(
      name: "401 expired", status: 401, body: error("UNAUTHENTICATED"),
      verdict: .renew(reason: "UNAUTHENTICATED")),
    Row(
      name: "401 after a renewal", status: 401, body: error("UNAUTHENTICATED"), renewed: true,
      verdict: again(500, "UNAUTHENTICATED")),
    Row(
      name: "401 after a renewal, a notice", status: 401, body: error("UNAUTHENTICATED"),
      renewed: true, isUrgent: false, verdict: rejected("UNAUTHENTICATED")),
    Row(
      name: "401 of nonsense", status: 401, body: "no", verdict: .renew(reason: "HTTP 401")),
    Row(
      name: "401 THIRD_PARTY_AUTH_ERROR", status: 401,
      body: error("UNAUTHENTICATED", fcm: "THIRD_PARTY_AUTH_ERROR"),
      verdict: again(500, "THIRD_PARTY_AUTH_ERROR")),
    Row(
      name: "403 SENDER_ID_MISMATCH", status: 403,
      body: error("PERMISSION_DENIED", fcm: "SENDER_ID_MISMATCH"),
      verdict: .tokenRefused(TokenRefusal("SENDER_ID_MISMATCH"))),
    Row(
      name: "403", status: 403, body: error("PERMISSION_DENIED"),
      verdict: again(500, "PERMISSION_DENIED")),
    Row(
      name: "403, a notice", status: 403, body: error("PERMISSION_DENIED"), isUrgent: false,
      verdict: rejected("PERMISSION_DENIED")),
    Row(
      name: "404 UNREGISTERED", status: 404, body: error("NOT_FOUND", fcm: "UNREGISTERED"),
      verdict: gone),
    Row(
      name: "404 of a wrong project", status: 404, body: error("NOT_FOUND"),
      verdict: again(500, "NOT_FOUND")),
    Row(name: "404 of nonsense", status: 404, body: "<html>", verdict: again(500, "HTTP 404")),
    Row(name: "405", status: 405, verdict: again(500, "HTTP 405")),
    Row(name: "405, a notice", status: 405, isUrgent: false, verdict: rejected("HTTP 405")),
    Row(name: "410", status: 410, verdict: again(500, "HTTP 410")),
    Row(name: "413", status: 413, verdict: rejected("HTTP 413")),
    Row(name: "425", status: 425, attempt: 2, verdict: again(1000, "HTTP 425")),
    Row(name: "301 is not followed", status: 301, verdict: again(500, "HTTP 301")),
    Row(name: "301, a notice", status: 301, isUrgent: false, verdict: rejected("HTTP 301")),
    Row(
      name: "a word that is none", status: 403, body: error("token abc:def"),
      verdict: again(500, "HTTP 403")),
  ]

  static let busy: [Row] = [
    Row(
      name: "429 with seconds", status: 429,
      body: error("RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED"),
      retryAfter: "7", verdict: again(7000, "QUOTA_EXCEEDED")),
    Row(
      name: "429 with a date", status: 429,
      body: error("RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED"),
      retryAfter: "Sun, 06 Nov 1994 08:49:47 GMT", verdict: again(10_000, "QUOTA_EXCEEDED")),
    Row(
      name: "429 without a time is a minute", status: 429,
      body: error("RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED"), isUrgent: false, seconds: 61,
      verdict: again(60_000, "QUOTA_EXCEEDED")),
    Row(
      name: "429 without a time, a ring: a third of what is left", status: 429,
      body: error("RESOURCE_EXHAUSTED", fcm: "QUOTA_EXCEEDED"),
      verdict: again(10_000, "QUOTA_EXCEEDED")),
    Row(
      name: "429 for too long, a notice", status: 429, retryAfter: "30", isUrgent: false,
      verdict: failed("HTTP 429")),
    Row(
      name: "429 with a time that is none", status: 429, retryAfter: "soon", isUrgent: false,
      seconds: 90, verdict: again(60_000, "HTTP 429")),
    Row(
      name: "503", status: 503, body: error("UNAVAILABLE", fcm: "UNAVAILABLE"),
      verdict: again(500, "UNAVAILABLE")),
    Row(
      name: "503, the third time", status: 503, body: error("UNAVAILABLE", fcm: "UNAVAILABLE"),
      attempt: 3, verdict: again(2000, "UNAVAILABLE")),
    Row(
      name: "503 with seconds", status: 503, retryAfter: "3", verdict: again(3000, "HTTP 503")),
    Row(
      name: "503 with a date that has passed", status: 503,
      retryAfter: "Sun, 06 Nov 1994 08:00:00 GMT", verdict: again(100, "HTTP 503")),
    Row(
      name: "503 beyond the deadline", status: 503, retryAfter: "31",
      verdict: again(10_000, "HTTP 503")),
    Row(
      name: "503 for an hour, soon before the deadline", status: 503, retryAfter: "3600",
      seconds: 1, verdict: again(500, "HTTP 503")),
    Row(
      name: "503 beyond the deadline, a notice", status: 503, retryAfter: "31", isUrgent: false,
      verdict: failed("HTTP 503")),
    Row(
      name: "503, the sixth time", status: 503, attempt: 6, seconds: 600,
      verdict: again(4000, "HTTP 503")),
    Row(
      name: "503, a notice, once too often", status: 503, attempt: 6, isUrgent: false,
      seconds: 600, verdict: failed("HTTP 503")),
    Row(
      name: "503 with no time left", status: 503, seconds: 0, verdict: failed("HTTP 503")),
    Row(
      name: "500", status: 500, body: error("INTERNAL", fcm: "INTERNAL"),
      verdict: again(500, "INTERNAL")),
    Row(
      name: "500 UNSPECIFIED_ERROR", status: 500,
      body: error("UNKNOWN", fcm: "UNSPECIFIED_ERROR"), attempt: 2,
      verdict: again(1000, "UNSPECIFIED_ERROR")),
    Row(name: "502 of a proxy", status: 502, body: "<html>", verdict: again(500, "HTTP 502")),
    Row(name: "504", status: 504, verdict: again(500, "HTTP 504")),
    Row(name: "408", status: 408, verdict: again(500, "HTTP 408")),
  ]

  @Test(arguments: accepted + invalid + refused + busy)
  func theTable(_ row: Row) {
    var headers: [String: String] = [:]
    headers["retry-after"] = row.retryAfter
    let answer = ProviderAnswer(status: row.status, headers: headers, body: Array(row.body.utf8))
    var context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(row.seconds))
    context.attempt = row.attempt
    context.renewed = row.renewed
    context.isUrgent = row.isUrgent
    #expect(FCMVerdict.judge(.answer(answer), context) == row.verdict)
  }

  @Test func aRingThatMayHaveArrivedIsRepeatedANoticeIsNot() {
    var context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(30))
    #expect(
      FCMVerdict.judge(.notSent("no connection"), context) == Self.again(500, "no connection"))
    #expect(
      FCMVerdict.judge(.unknown("lost"), context)
        == .retry(after: .milliseconds(500), reason: "lost", .doubt))
    context.doubts = 1
    context.attempt = 2
    #expect(
      FCMVerdict.judge(.unknown("lost"), context)
        == .retry(after: .seconds(1), reason: "lost", .doubt))
    let lost = AttemptVerdict.done(.failed(reason: "lost", mayHaveArrived: true))
    context.doubts = 0
    context.isUrgent = false
    #expect(FCMVerdict.judge(.unknown("lost"), context) == lost)
    #expect(
      FCMVerdict.judge(.notSent("no connection"), context) == Self.again(1000, "no connection"))
  }

  @Test func noBodyTraps() {
    let deep = String(repeating: "[", count: 2000)
    let bodies = [
      deep, #"{"error":"# + deep, #"{"error":{"details":[null]}}"#, #"{"error":{"details":7}}"#,
      #"{"error":{"details":[{"@type":7}]}}"#, "\u{0}", "null", "[]", "\"",
      #"{"error":{"status":{}}}"#, String(repeating: "a", count: 100_000),
    ]
    let context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(30))
    for status in [200, 400, 401, 403, 404, 429, 500, 503, 0, 99, 700] {
      for body in bodies {
        let answer = ProviderAnswer(status: status, body: Array(body.utf8))
        let verdict = FCMVerdict.judge(.answer(answer), context)
        #expect(verdict != Self.gone)
        if case .tokenRefused = verdict { Issue.record("\(status) \(body.prefix(40))") }
      }
    }
  }
}
