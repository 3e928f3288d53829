import CallAuth
import CallCore
import Testing

/// The webhooks of apps in the file of keys.
@Suite struct WebhookSettingsTests {
  private static let secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

  private func keys(_ webhooks: String) throws -> AppKeys {
    try appKeys(keyFile(keyEntry(), webhooks))
  }

  private static func webhook(_ url: String = "https://app.example/events", _ more: String = "")
    -> String
  {
    #"{"url":"\#(url)","secrets":["\#(secret)"]\#(more)}"#
  }

  private func read(_ webhooks: String...) throws -> [WebhookSettings] {
    let list = webhooks.joined(separator: ",")
    return try keys(#","webhooks":[\#(list)]"#).webhooks["demo"] ?? []
  }

  @Test func mostAppsHaveNone() throws {
    for text in ["", #","webhooks":null"#, #","webhooks":[]"#] {
      let keys = try keys(text)
      #expect(keys.webhooks.isEmpty)
      #expect(keys.terms["demo"]?.subscriptions == [])
    }
  }

  @Test func anAppWithWebhooksFollowsItsCalls() throws {
    let keys = try keys(#","webhooks":[\#(Self.webhook())]"#)
    #expect(keys.terms["demo"]?.subscriptions == .webhooks)
    let one = try #require(keys.webhooks["demo"]?.first)
    #expect(one.endpoint.url == "https://app.example/events")
    #expect(one.endpoint.host == "app.example")
    #expect(one.events == Set(AppEventKind.allCases))
  }

  @Test func eventsCanBeChosen() throws {
    let chosen = try read(
      Self.webhook(#"https://app.example"#, #","events":["call.ended","call.missed"]"#))
    #expect(chosen.map(\.events) == [[.ended, .missed]])
  }

  @Test func theIDFollowsFromTheURLAlone() throws {
    let one = try read(Self.webhook("https://app.example/a"), Self.webhook("https://app.example/b"))
    #expect(one[0].endpoint.id != one[1].endpoint.id)
    #expect(one[0].endpoint.id.count == 16)
    let other = SignedEndpoint(url: "https://app.example/a", secrets: [[1, 2, 3]])
    #expect(other.id == one[0].endpoint.id)
  }

  @Test(
    arguments: [
      (webhook("http://app.example/"), "the webhook's url is not usable"),
      (#"{"url":"https://app.example/","secrets":[]}"#, "the webhook has 0 secrets"),
      (
        #"{"url":"https://app.example/","secrets":["short"]}"#,
        "a secret of the webhook is not base64 of 24 to 64 bytes"
      ),
      ("\(webhook()),\(webhook())", "two webhooks have the same url"),
      (
        (0..<5).map { webhook("https://app.example/\($0)") }.joined(separator: ","),
        "it has 5 webhooks"
      ),
      (webhook("https://app.example/", #","events":[]"#), "a webhook has no events"),
      (
        webhook("https://app.example/", #","events":["call.end"]"#),
        "there is no event \"call.end\""
      ),
    ] as [(String, String)]) func mistakesAreNamed(webhooks: String, what: String)
  {
    let error = #expect(throws: AppKeysError.self) { try keys(#","webhooks":[\#(webhooks)]"#) }
    #expect(error?.what == what)
  }

  /// The example of Standard Webhooks.
  @Test func theSignatureIsThatOfStandardWebhooks() {
    let secret: [UInt8] = [
      0x31, 0xf2, 0x90, 0xf6, 0xbf, 0x06, 0x29, 0x8a, 0xab, 0x4f, 0x08, 0xd4, 0x3c, 0x3f, 0x08,
      0x2c, 0xf6, 0x48, 0xa3, 0x62, 0xda, 0x2d, 0xa4, 0xb0,
    ]
    let endpoint = SignedEndpoint(url: "https://app.example/", secrets: [secret])
    #expect(
      endpoint.signature(
        id: "msg_p5jXN8AQM9LWM0D4loKWxJek", seconds: 1_614_265_330,
        body: Array(#"{"test": 2432232314}"#.utf8))
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
  }
}
