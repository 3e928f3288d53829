import CallCore
import CallPush
import Testing

@Suite("Web Push, what answers mean")
struct WebPushVerdictTests {
  static let now = Timestamp(microseconds: 784_111_777_000_000)

  /// - Parameter verdict: of the reason.
  private func check(
    _ statuses: Int..., retryAfter: String? = nil, renewed: Bool = false, seconds: Int64 = 30,
    isUrgent: Bool = true,
    sourceLocation: SourceLocation = #_sourceLocation, verdict: (String) -> AttemptVerdict
  ) {
    for status in statuses {
      let headers = retryAfter.map { ["retry-after": $0] } ?? [:]
      var context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(seconds))
      (context.renewed, context.isUrgent) = (renewed, isUrgent)
      let judged = WebPushVerdict.judge(
        .answer(ProviderAnswer(status: status, headers: headers)), context)
      #expect(judged == verdict("HTTP \(status)"), sourceLocation: sourceLocation)
    }
  }

  @Test func theTable() {
    func again(_ milliseconds: Int64) -> (String) -> AttemptVerdict {
      { .retry(after: .milliseconds(milliseconds), reason: $0) }
    }
    check(200, 201, 202) { _ in .done(.accepted) }
    check(301, 307, 400, 405, 408, 415, 425, 500, 502, verdict: again(500))
    check(401, 403) { .renew(reason: $0) }
    check(401, 403, renewed: true) { .tokenRefused(TokenRefusal($0, mayBeOurs: true)) }
    check(404, 410) { _ in .done(.tokenGone(at: nil)) }
    check(406, 429, verdict: again(10_000))
    check(413) { .done(.rejected(reason: $0)) }
    check(429, seconds: 9, verdict: again(3000))
    check(429, retryAfter: "4", verdict: again(4000))
    check(429, retryAfter: "Sun, 06 Nov 1994 08:49:40 GMT", verdict: again(3000))
    check(429, retryAfter: "30", verdict: again(10_000))
    check(503, retryAfter: "2", verdict: again(2000))
    check(503, retryAfter: "0", verdict: again(100))
    check(503, retryAfter: "3600", verdict: again(10_000))
    // A notice ends at an answer that is not about its subscription.
    check(301, 400, 405, 413, 415, 425, isUrgent: false) { .done(.rejected(reason: $0)) }
    check(507, seconds: 0) { .done(.failed(reason: $0)) }
  }

  @Test func withoutAnAnswer() {
    let context = AttemptContext(now: Self.now, deadline: Self.now + .seconds(30))
    let lost = WebPushVerdict.judge(.unknown("lost"), context)
    #expect(lost == context.inDoubt("lost"))
    let unsent = WebPushVerdict.judge(.notSent("no connection"), context)
    #expect(unsent == context.retry(reason: "no connection"))
  }
}

@Suite("Web Push, where pushes may go")
struct PushEndpointTests {
  static let standard = WebPushConfiguration.standardHosts

  func refusal(_ text: String, further: [String] = [], allowsPrivate: Bool = false) -> String? {
    guard let endpoint = PushEndpoint(text) else { return "not an endpoint" }
    let rules = (Self.standard + further).compactMap { PushHostRule($0) }
    return PushEndpointPolicy(rules: rules, allowsPrivate: allowsPrivate).refusal(endpoint)
  }

  @Test(arguments: [
    "https://fcm.googleapis.com/fcm/send/dpH5lCsTSSM:APA91b",
    "https://updates.push.services.mozilla.com/wpush/v2/gAAAA?x=1",
    "https://wns2-par02p.notify.windows.com/w/?token=BQYAAA%3d%3d",
    "https://web.push.apple.com/QGuQyavXutnMH", "https://FCM.googleapis.com:443/fcm/send/x",
  ])
  func theBrowsersServices(_ endpoint: String) { #expect(refusal(endpoint) == nil) }

  @Test(arguments: [
    "http://fcm.googleapis.com/x", "https://fcm.googleapis.com", "https:fcm.googleapis.com/x",
    "https://user@fcm.googleapis.com/x", "https://fcm.googleapis.com@evil.example/x",
    "https://fcm.googleapis.com:443@evil.example/x", "https://fcm.googleapis.com\\@evil.example/x",
    "https://fcm.googleapis.com/x#y", "https://fcm.googleapis.com:/x",
    "https://fcm.googleapis.com:0/x", "https://fcm.googleapis.com:65536/x",
    "https://fcm.googleapis.com:+443/x", "https://fcm.googleapis.com:443:443/x",
    "https://fcm.google apis.com/x", "https://fcm.googleapis.com/a b",
    "https://fcm.googleapis.com/a\r\nHost: x", "https://[::1]/x", "https://[::ffff:10.0.0.1]/x",
    "https:///x", "https://.fcm.googleapis.com/x", "https://fcm..googleapis.com/x",
    "https://fcm.googleapis.com./x", "https://fcm%2egoogleapis.com/x", "https://fcm。com/x",
    "ftp://fcm.googleapis.com/x", "//fcm.googleapis.com/x", "", "https://", "https://?x",
    "https://fcm.googleapis.com?x", "file:///etc/passwd",
  ])
  func whatIsNoEndpoint(_ endpoint: String) { #expect(PushEndpoint(endpoint) == nil) }

  @Test(arguments: [
    "https://127.0.0.1/x", "https://10.0.0.1/x", "https://169.254.169.254/latest/meta-data/",
    "https://192.168.0.1:443/x", "https://2130706433/x", "https://127.1/x",
    "https://0x7f000001/x", "https://0x7f.0.0.0x1/x", "https://localhost/x",
    "https://metadata.google.internal/x", "https://nas.local/x", "https://intranet/x",
    "https://1.0.0.127.in-addr.arpa/x",
  ])
  func addressesAndLocalNames(_ endpoint: String) {
    #expect(refusal(endpoint) == "the endpoint is an address, not a push service")
    // Not even where private addresses are allowed, unless they are listed.
    #expect(
      refusal(endpoint, allowsPrivate: true)
        == "the endpoint is at no push service of the list")
  }

  @Test(arguments: [
    "https://evil.example/x", "https://fcm.googleapis.com.evil.example/x",
    "https://xfcm.googleapis.com/x", "https://push.services.mozilla.com/x",
    "https://evilpush.services.mozilla.com/x", "https://storage.googleapis.com/x",
    "https://fcm.googleapis.com:8443/x", "https://notify.windows.com.evil.example/x",
  ])
  func otherHosts(_ endpoint: String) {
    #expect(refusal(endpoint) == "the endpoint is at no push service of the list")
  }

  @Test func anOperatorAddsHosts() {
    let further = ["push.example.com", "*.push.example.org:8443"]
    #expect(refusal("https://push.example.com/x", further: further) == nil)
    #expect(refusal("https://push.example.com:8443/x", further: further) != nil)
    #expect(refusal("https://a.push.example.org:8443/x", further: further) == nil)
    #expect(refusal("https://a.b.push.example.org:8443/x", further: further) == nil)
    #expect(refusal("https://push.example.org:8443/x", further: further) != nil)
    #expect(refusal("https://a.push.example.org/x", further: further) != nil)
  }

  @Test(arguments: ["", "*", "*.", "*.com", "a b", "https://x.y", "x.y:0", "x.y:", "x.y/z", "*x.y"])
  func whatIsNoRule(_ text: String) { #expect(PushHostRule(text) == nil) }

  @Test func theOriginIsThatOfTheAddress() throws {
    let plain = try #require(PushEndpoint("https://Push.Example.com:443/a/b?c=d"))
    #expect(plain.origin == "https://push.example.com")
    #expect(plain.url == "https://push.example.com/a/b?c=d")
    let other = try #require(PushEndpoint("https://push.example.com:8443/a"))
    #expect(other.origin == "https://push.example.com:8443")
  }
}
