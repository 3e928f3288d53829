import CallCore
import CallWire
import Testing

/// Tokens of FCM and Web Push.
extension RegistrationTests {
  // MARK: FCM

  @Test func fcmTokens() throws {
    let token = "dGhlIHRva2Vu:APA91b_-x"
    for text in [token, " \(token)", "\(token)\n", "\r\n\t\(token) "] {
      #expect(
        try alert(Self.fcm(text, topic: "my-project")) == Self.fcm(token, topic: "my-project"))
    }
    for bad in ["", " ", "\n", "a\nb", "a\u{7f}", "\u{2028}", "a\u{85}b"] {
      #expect(refusal("alertToken", Self.fcm(bad)).contains("token"))
    }
    let longest = String(repeating: "x", count: 1024)
    #expect(try alert(Self.fcm(longest))?.token == longest)
    _ = refusal("alertToken", Self.fcm(longest + "x"))
  }

  /// It becomes part of a path.
  @Test func projectsOfFCM() throws {
    for good in ["", "my-project-1", "example.com:my-project"] {
      #expect(try alert(Self.fcm(topic: good))?.topic == good)
    }
    for bad in [
      "a/b", "../x", "a b", "a?b", "a%2fb", "ä", "a\n", String(repeating: "a", count: 256),
    ] {
      #expect(refusal("alertToken", Self.fcm(topic: bad)).contains("topic"))
    }
  }

  @Test func onlyAPNsHasVoIPTokensAndASandbox() throws {
    #expect(refusal("voipToken", Self.fcm()).contains("alertToken"))
    #expect(refusal("voipToken", Self.webPush()).contains("alertToken"))
    #expect(try alert(Self.fcm(environment: "production"))?.environment == "")
    #expect(refusal("alertToken", Self.fcm(environment: "sandbox")).contains("environment"))
    var token = Self.webPush()
    token.environment = "sandbox"
    #expect(refusal("alertToken", token).contains("environment"))
  }

  // MARK: Web Push

  static let keptKeys =
    #""keys":{"auth":"\#(Base64URL.text(secret))","p256dh":"\#(Base64URL.text(point))"}"#

  @Test func subscriptionsAreWrittenAnew() throws {
    let kept = PushToken(
      provider: .webPush, environment: "", topic: "https://push.example",
      token: #"{"endpoint":"https://push.example/s/1",\#(Self.keptKeys)}"#)
    let padded = Base64URL.text(Self.point).replacing("-", with: "+").replacing("_", with: "/")
    for given in [
      Self.webPush(), Self.webPush(extra: #""expirationTime":null,"#),
      Self.webPush(extra: #" "options" : {"userVisibleOnly":true} , "#),
      Self.webPush(endpoint: #"https:\/\/push.example\/s\/1"#), Self.webPush(p256dh: padded + "="),
      Self.webPush(auth: Base64URL.text(Self.secret) + "=="), kept,
    ] {
      #expect(try alert(given) == kept)
    }
  }

  /// Chrome names a subscription so that it has ended (RFC 2606).
  @Test func anEndedSubscriptionIsRefused() {
    let ended = Self.webPush(endpoint: "https://permanently-removed.invalid/fcm/send/x")
    #expect(refusal("alertToken", ended).contains("Subscribe anew"))
  }

  @Test(arguments: [
    ("https://push.example/x", "https://push.example"),
    ("HTTPS://Push.Example/X?y=Z", "https://push.example"),
    ("https://push.example:443/x", "https://push.example"),
    ("https://push.example:8443/x", "https://push.example:8443"),
    ("https://push.example", "https://push.example"),
    ("https://push.example?x", "https://push.example"),
    ("https://192.0.2.1/x", "https://192.0.2.1"),
    ("https://[2001:db8::1]/x", "https://[2001:db8::1]"),
    ("https://[::1]:9/x", "https://[::1]:9"),
  ])
  func originsOfEndpoints(endpoint: String, origin: String) throws {
    let token = try alert(Self.webPush(endpoint: endpoint))
    #expect(token?.topic == origin)
    #expect(token?.token == #"{"endpoint":"\#(endpoint)",\#(Self.keptKeys)}"#)
  }

  @Test(arguments: [
    "", "push.example/x", "http://push.example/x", "https://", "https:///x", "https://:443/x",
    "https://ann@push.example/x", "https://ann:secret@push.example/x", "https://push.example:0/x",
    "https://push.example:65536/x", "https://push.example:/x", "https://push.example:+1/x",
    "https://push.example/a b", "https://push.example/x#y", "https://push.example/\u{e4}",
    "https://push example/x", "https://push.example\\\\@x", "https://[::1/x", "https://a]/x",
    "https://[]/x", "https://push.example/\\n", "https://%70ush.example/x", "ftp://push.example",
    "https://push.example/\\u0000", "https://" + String(repeating: "a", count: 254) + "/x",
  ])
  func whatIsNoEndpoint(endpoint: String) {
    let message = refusal("alertToken", Self.webPush(endpoint: endpoint))
    #expect(message.contains("endpoint"))
  }

  @Test func keysOfSubscriptions() {
    for (p256dh, auth) in [
      ("", Base64URL.text(Self.secret)), (Base64URL.text(Self.point), ""),
      (Base64URL.text(Self.point.dropLast()), Base64URL.text(Self.secret)),
      (Base64URL.text(Self.point + [0]), Base64URL.text(Self.secret)),
      (Base64URL.text([0x02] + Self.point.dropFirst()), Base64URL.text(Self.secret)),
      (Base64URL.text(Self.point), Base64URL.text(Self.secret.dropLast())),
      (Base64URL.text(Self.point), Base64URL.text(Self.secret + [0])),
      ("!" + Base64URL.text(Self.point), Base64URL.text(Self.secret)),
    ] {
      _ = refusal("alertToken", Self.webPush(p256dh: p256dh, auth: auth))
    }
    for text in [
      "", "{}", "[]", "x", #"{"endpoint":7}"#, #"{"keys":[]}"#, "https://push.example/x",
    ] {
      var token = Self.webPush()
      token.token = text
      _ = refusal("alertToken", token)
    }
  }

  @Test func subscriptionsAtTheirLimit() throws {
    func endpoint(_ count: Int) -> String {
      let start = "https://push.example/"
      return start + String(repeating: "x", count: count - start.utf8.count)
    }
    let fits = Self.webPush(endpoint: endpoint(2048))
    let kept = try alert(fits)?.token
    #expect(kept?.contains(endpoint(2048)) == true)
    #expect(refusal("alertToken", Self.webPush(endpoint: endpoint(2049))).contains("2048"))
    // Fields that a browser adds are not kept, and count for nothing but the most that is read.
    var wide = fits
    wide.token = #"{"x":"\#(String(repeating: "y", count: 1500))","# + wide.token.dropFirst()
    #expect(try alert(wide)?.token == kept)
    wide.token += String(repeating: " ", count: 4097)
    #expect(refusal("alertToken", wide).contains("4096"))
  }
}
