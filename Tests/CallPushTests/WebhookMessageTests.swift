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

  private func message(_ kind: String, _ data: String) -> String {
    let id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    return """
      {"type":"call.\(kind)","id":"call_\(id)_1800000000000_\(kind)",\
      "timestamp":"2027-01-15T08:01:10.000Z","app":"demo","data":{"call":"\(id)",\(data)}}
      """
  }

  @Test func placed() {
    let data = """
      "caller":{"user":"ann","device":"phone","deviceName":"Ann's \\"phone\\"","name":"Ann Lee"},\
      "callee":{"user":"bob"},"video":true,"placedAt":"2027-01-15T08:00:00.000Z"
      """
    #expect(text(event(.placed)) == message("placed", data))
  }

  @Test func ended() {
    var event = event(.ended)
    event.caller = Party(user: "ann", device: "phone")
    event.video = false
    event.by = Party(user: "bob", device: "tablet")
    event.answeredAt = Self.at + .seconds(10)
    event.reason = .hungUp
    let data = """
      "caller":{"user":"ann","device":"phone"},"callee":{"user":"bob"},"video":false,\
      "placedAt":"2027-01-15T08:00:00.000Z","by":{"user":"bob","device":"tablet"},\
      "answeredAt":"2027-01-15T08:00:10.000Z","endedAt":"2027-01-15T08:01:10.000Z",\
      "reason":"hungUp","missed":false
      """
    #expect(text(event) == message("ended", data))
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
    // The time of the attempt, not of the event.
    let signature = endpoint.signature(id: message.id, seconds: 1_800_000_090, body: message.body)
    let wanted = [
      "content-type": "application/json", "webhook-timestamp": "1800000090",
      "webhook-id": "call_6ba7b810-9dad-11d1-80b4-00c04fd430c8_1800000000000_missed",
      "webhook-signature": signature,
    ]
    let values = Dictionary(uniqueKeysWithValues: headers)
    #expect(values.filter { wanted.keys.contains($0.key) } == wanted)
    #expect(signature.split(separator: " ").count == 2, "one for each secret")
  }

  @Test(
    "which answers refuse the event itself, and which speak for all events",
    arguments: [
      (400, true, nil), (404, true, nil), (410, false, .gone), (408, false, nil),
      (429, false, .pause(.seconds(7))), (301, false, nil), (500, false, nil),
      (503, false, .pause(.seconds(7))),
    ] as [(Int, Bool, WebhookHealth.Demand?)])
  func answers(status: Int, isRefusal: Bool, demand: WebhookHealth.Demand?) {
    let failure = WebhookFailure(status: status)
    #expect(failure.isRefusal == isRefusal)
    #expect(failure.reason.hasPrefix("status \(status)"))
    #expect(failure.demand == (status == 410 ? .gone : nil))
    #expect(WebhookFailure(status: status, retryAfter: .seconds(7)).demand == demand)
  }
}
