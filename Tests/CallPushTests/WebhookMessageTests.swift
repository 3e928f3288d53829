import CallAuth
import CallCore
import CallPush
import Testing

/// The message that a webhook gets for an event.
@Suite struct WebhookMessageTests {
  private static let at = Timestamp(microseconds: 1_800_000_000_000_000)

  private func event(_ kind: AppEventKind) -> AppEvent {
    AppEvent(
      call: CallID(high: 0x6ba7_b810_9dad_11d1, low: 0x80b4_00c0_4fd4_30c8), kind: kind,
      at: Self.at + .seconds(70), callee: UserKey(app: "demo", user: "bob"),
      caller: Party(user: "ann", device: "phone", deviceName: "Ann's \"phone\"", name: "Ann Lee"),
      video: true, placedAt: Self.at)
  }

  private func text(_ event: AppEvent) -> String {
    String(decoding: WebhookMessage(event).body, as: UTF8.self)
  }

  @Test func placed() {
    #expect(
      text(event(.placed)) == """
        {"type":"call.placed","id":"call_6ba7b810-9dad-11d1-80b4-00c04fd430c8_1800000000000_placed",\
        "timestamp":"2027-01-15T08:01:10.000Z","app":"demo","data":\
        {"call":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","caller":{"user":"ann","device":"phone",\
        "deviceName":"Ann's \\"phone\\"","name":"Ann Lee"},"callee":{"user":"bob"},"video":true,\
        "placedAt":"2027-01-15T08:00:00.000Z"}}
        """)
  }

  @Test func ended() {
    var event = event(.ended)
    event.caller = Party(user: "ann", device: "phone")
    event.video = false
    event.by = Party(user: "bob", device: "tablet")
    event.answeredAt = Self.at + .seconds(10)
    event.reason = .hungUp
    #expect(
      text(event) == """
        {"type":"call.ended","id":"call_6ba7b810-9dad-11d1-80b4-00c04fd430c8_1800000000000_ended",\
        "timestamp":"2027-01-15T08:01:10.000Z","app":"demo","data":\
        {"call":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","caller":{"user":"ann","device":"phone"},\
        "callee":{"user":"bob"},"video":false,"placedAt":"2027-01-15T08:00:00.000Z",\
        "by":{"user":"bob","device":"tablet"},"answeredAt":"2027-01-15T08:00:10.000Z",\
        "endedAt":"2027-01-15T08:01:10.000Z","reason":"hungUp","missed":false}}
        """)
  }

  @Test func wentOn() {
    var event = event(.ended)
    event.reason = .hungUp
    var transfer = CallRecord.Diversion(
      from: "carol", to: ["dave"], reason: .transferred, by: Party(user: "carol", device: "pad"),
      at: Self.at + .seconds(20))
    transfer.takenBy = Party(user: "dave", device: "desk")
    var failed = transfer
    (failed.takenBy, failed.failed) = (nil, .unanswered)
    event.diversions = [
      CallRecord.Diversion(
        from: "bob", to: ["carol", "eve"], reason: .noAnswer, at: Self.at + .seconds(5)), failed,
      transfer,
    ]
    let by = #""by":{"user":"carol","device":"pad"}"#
    #expect(
      text(event).hasSuffix(
        #","missed":false,"diversions":[{"from":"bob","to":["carol","eve"],"reason":"noAnswer","#
          + #""at":"2027-01-15T08:00:05.000Z"},{"from":"carol","to":["dave"],"#
          + #""reason":"transferred","at":"2027-01-15T08:00:20.000Z",\#(by),"#
          + #""failed":"unanswered"},{"from":"carol","to":["dave"],"reason":"transferred","#
          + #""at":"2027-01-15T08:00:20.000Z",\#(by),"takenBy":{"user":"dave","device":"desk"}}]}}"#
      ))
  }

  @Test func gone() {
    let event = AppEvent(
      GoneRegistration(
        device: "phone", deviceName: "Bob's phone", provider: .apns, isVoIP: true,
        fingerprint: "00112233445566778899aabbccddeeff", registeredAt: Self.at),
      of: UserKey(app: "demo", user: "bob"), at: Self.at + .seconds(70))
    #expect(
      text(event) == """
        {"type":"device.gone",\
        "id":"device_00112233445566778899aabbccddeeff_1800000000000_gone",\
        "timestamp":"2027-01-15T08:01:10.000Z","app":"demo","data":\
        {"user":"bob","device":"phone","deviceName":"Bob's phone","cause":"refused",\
        "provider":"apns","token":"voip","registeredAt":"2027-01-15T08:00:00.000Z"}}
        """)
  }

  @Test(
    "the end of a whole registration names no token, and two devices have two ids",
    arguments: [GoneCause.unregistered, .removed, .expired, .displaced])
  func ended(cause: GoneCause) {
    func event(_ device: DeviceID) -> AppEvent {
      AppEvent(
        GoneRegistration(device: device, cause: cause, registeredAt: Self.at),
        of: UserKey(app: "demo", user: "bob"), at: Self.at + .seconds(70))
    }
    let id = "device_\(event("phone").goneName)_1800000000000_gone"
    #expect(
      text(event("phone")) == """
        {"type":"device.gone","id":"\(id)","timestamp":"2027-01-15T08:01:10.000Z","app":"demo",\
        "data":{"user":"bob","device":"phone","cause":"\(cause)",\
        "registeredAt":"2027-01-15T08:00:00.000Z"}}
        """)
    #expect(event("phone").goneName.utf8.count == 16)
    #expect(WebhookMessage(event("pad")).id != WebhookMessage(event("phone")).id)
  }

  @Test func theHeadersAreThoseOfStandardWebhooks() {
    let endpoint = SignedEndpoint(
      url: "https://app.example/", secrets: [Array(repeating: 1, count: 32), [2]])
    let message = WebhookMessage(event(.missed))
    let headers = message.headers(
      WebhookSettings(endpoint), now: Self.at + .milliseconds(90_500))
    let values = Dictionary(uniqueKeysWithValues: headers)
    #expect(values["content-type"] == "application/json")
    #expect(
      values["webhook-id"] == "call_6ba7b810-9dad-11d1-80b4-00c04fd430c8_1800000000000_missed")
    #expect(values["webhook-timestamp"] == "1800000090", "of the attempt, not of the event")
    let signature = endpoint.signature(
      id: message.id, seconds: 1_800_000_090, body: message.body)
    #expect(values["webhook-signature"] == signature)
    #expect(signature.split(separator: " ").count == 2, "one for each secret")
  }

  @Test(arguments: [
    (400, true), (404, true), (410, false), (408, false), (429, false), (301, false), (500, false),
    (503, false),
  ])
  func whichAnswersRefuseTheEventItself(status: Int, isRefusal: Bool) {
    #expect(WebhookFailure(status: status).isRefusal == isRefusal)
    #expect(WebhookFailure(status: status).reason.hasPrefix("status \(status)"))
  }

  @Test(
    arguments: [
      (429, .pause(.seconds(7))), (503, .pause(.seconds(7))), (410, .gone), (500, nil), (404, nil),
    ] as [(Int, WebhookHealth.Demand?)])
  func whichAnswersSpeakForAllEvents(status: Int, demand: WebhookHealth.Demand?) {
    #expect(WebhookFailure(status: status, retryAfter: .seconds(7)).demand == demand)
    #expect(WebhookFailure(status: status).demand == (status == 410 ? .gone : nil))
  }
}
