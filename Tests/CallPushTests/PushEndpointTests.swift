import CallCore
import CallPush
import Testing

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
