import CallCore
import CallPush
import CallWire
import Foundation
import Testing

@Suite("Web Push, what answers mean")
struct WebPushVerdictTests {
  static let now = Timestamp(microseconds: 784_111_777_000_000)
  typealias Row = (
    status: Int, retryAfter: String?, renewed: Bool, seconds: Int64, verdict: AttemptVerdict
  )

  @Test func theTable() {
    func failed(_ reason: String) -> AttemptVerdict { .done(.failed(reason: reason)) }
    func rejected(_ reason: String) -> AttemptVerdict { .done(.rejected(reason: reason)) }
    func refused(_ reason: String) -> AttemptVerdict {
      .tokenRefused(TokenRefusal(reason, mayBeOurs: true))
    }
    func again(_ milliseconds: Int64, _ reason: String) -> AttemptVerdict {
      .retry(after: .milliseconds(milliseconds), reason: reason)
    }
    let rows: [Row] = [
      (200, nil, false, 30, .done(.accepted)), (201, nil, false, 30, .done(.accepted)),
      (202, nil, false, 30, .done(.accepted)),
      (301, nil, false, 30, again(500, "HTTP 301")), (307, nil, false, 30, again(500, "HTTP 307")),
      (400, nil, false, 30, again(500, "HTTP 400")), (405, nil, false, 30, again(500, "HTTP 405")),
      (401, nil, false, 30, .renew(reason: "HTTP 401")),
      (401, nil, true, 30, refused("HTTP 401")),
      (403, nil, false, 30, .renew(reason: "HTTP 403")),
      (403, nil, true, 30, refused("HTTP 403")),
      (404, nil, false, 30, .done(.tokenGone(at: nil))),
      (406, nil, false, 30, again(10_000, "HTTP 406")),
      (408, nil, false, 30, again(500, "HTTP 408")),
      (410, nil, false, 30, .done(.tokenGone(at: nil))),
      (413, nil, false, 30, rejected("HTTP 413")), (415, nil, false, 30, again(500, "HTTP 415")),
      (425, nil, false, 30, again(500, "HTTP 425")),
      (429, nil, false, 30, again(10_000, "HTTP 429")),
      (429, nil, false, 9, again(3000, "HTTP 429")),
      (429, "4", false, 30, again(4000, "HTTP 429")),
      (429, "Sun, 06 Nov 1994 08:49:40 GMT", false, 30, again(3000, "HTTP 429")),
      (429, "30", false, 30, again(10_000, "HTTP 429")),
      (500, nil, false, 30, again(500, "HTTP 500")),
      (502, nil, false, 30, again(500, "HTTP 502")),
      (503, "2", false, 30, again(2000, "HTTP 503")),
      (503, "0", false, 30, again(100, "HTTP 503")),
      (503, "3600", false, 30, again(10_000, "HTTP 503")),
      (507, nil, false, 0, failed("HTTP 507")),
    ]
    for row in rows {
      var headers: [String: String] = [:]
      headers["retry-after"] = row.retryAfter
      var context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(row.seconds))
      context.renewed = row.renewed
      #expect(
        WebPushVerdict.judge(
          .answer(ProviderAnswer(status: row.status, headers: headers)), context)
          == row.verdict, "\(row.status) \(row.retryAfter ?? "")")
    }
  }

  @Test(arguments: [301, 400, 405, 413, 415, 425])
  func aNoticeEndsAtAnAnswerThatIsNotAboutItsSubscription(status: Int) {
    var context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(30))
    context.isUrgent = false
    #expect(
      WebPushVerdict.judge(.answer(ProviderAnswer(status: status)), context)
        == .done(.rejected(reason: "HTTP \(status)")))
  }

  @Test func aRingThatMayHaveArrivedIsRepeatedANoticeIsNot() {
    var context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(30))
    #expect(
      WebPushVerdict.judge(.unknown("lost"), context)
        == .retry(after: .milliseconds(500), reason: "lost", .doubt))
    context.isUrgent = false
    #expect(
      WebPushVerdict.judge(.unknown("lost"), context)
        == .done(.failed(reason: "lost", mayHaveArrived: true)))
    #expect(
      WebPushVerdict.judge(.notSent("no connection"), context)
        == .retry(after: .milliseconds(500), reason: "no connection"))
  }
}
