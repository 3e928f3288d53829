import CallClient
import CallCore
import CallPush
import CallWire
import Testing

/// Every dialect's payload, to the letter.
@Suite struct DialectPayloadTests {
  static let call = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
  static let hex = "6ba7b8109dad11d180b400c04fd430c8"
  /// Our text in Sinch's form.
  static let opaque = "cm1.\(hex).1a0c4506c14.1a0c450e130.a"

  /// Our object, for the fixture's call.
  static func note(_ purpose: String = "ring", _ more: String = "") -> String {
    #""callmesh":{"v":1,"purpose":"\#(purpose)","call":"\#(call)","callee":"bob","#
      + #""caller":{"user":"ann","device":"ann-phone"},"placedAtMs":1790000000000,"#
      + #""sentAtMs":1790000000020,"deadlineMs":1790000030000,"capability":"cap"\#(more)}"#
  }

  /// The same as the text that FCM's map of strings holds.
  static func flatNote(_ purpose: String = "ring", _ more: String = "") -> String {
    let text = note(purpose, more).dropFirst(#""callmesh":"#.count)
    return #""callmesh":""# + text.replacing("\"", with: "\\\"") + "\""
  }

  @Test func payloads() {
    func check(_ job: PushJob, _ text: String, sourceLocation: SourceLocation = #_sourceLocation) {
      #expect(encode(job).text == "{\(text)}", sourceLocation: sourceLocation)
    }
    let (call, hex, opaque, note) = (Self.call, Self.hex, Self.opaque, Self.note())
    check(pushJob(), note)
    check(pushJob(.missed, reason: .cancelled), Self.note("missed", #","reason":"cancelled""#))
    check(
      pushJob(
        .answeredElsewhere, reason: .answeredElsewhere,
        by: Party(user: "bob", device: "bob-tablet", deviceName: "Bob's tablet")),
      Self.note(
        "answeredElsewhere",
        #","reason":"answeredElsewhere","by":{"user":"bob","device":"bob-tablet","#
          + #""deviceName":"Bob's tablet"}"#))
    check(pushJob(.cancel), Self.note("cancel"))
    // Everything that can be said.
    check(
      pushJob(
        caller: Party(user: "ann", device: "ann-phone", deviceName: "Ann \"A\"\n\\"), video: true,
        headers: [CustomHeader(name: "X-Team", value: "größe \u{1F600}")]),
      #""callmesh":{"v":1,"purpose":"ring","call":"\#(call)","callee":"bob","#
        + #""caller":{"user":"ann","device":"ann-phone","deviceName":"Ann \"A\"\n\\"},"#
        + #""video":true,"placedAtMs":1790000000000,"sentAtMs":1790000000020,"#
        + #""deadlineMs":1790000030000,"capability":"cap","#
        + "\"headers\":[{\"name\":\"X-Team\",\"value\":\"größe \u{1F600}\"}]}")
    for dialect in PushDialect.allCases {
      check(pushJob(dialect: dialect, provider: .webPush), note)
    }
    check(pushJob(dialect: .apple), #""callUUID":"\#(call)","handle":"ann",\#(note)"#)
    let video = note.replacing(#""placed"#, with: #""video":true,"placed"#)
    let fcsdk = #""UUID":"\#(call)","handle":"ann","hasVideo":"#
    check(pushJob(dialect: .fcsdk), fcsdk + "false,\(note)")
    check(pushJob(dialect: .fcsdk, video: true), fcsdk + "true,\(video)")
    let cancel =
      #""twi_message_type":"twilio.voice.cancel","twi_call_sid":"CA\#(hex)","#
      + #""twi_from":"client:ann","twi_to":"client:bob","#
    check(
      pushJob(.cancel, dialect: .twilio, reason: .cancelled),
      #""aps":{},"# + cancel + Self.note("cancel", #","reason":"cancelled""#))
    check(pushJob(.cancel, dialect: .twilio, provider: .fcm), cancel + Self.flatNote("cancel"))
    check(pushJob(dialect: .sinch), #""SIN":"\#(opaque)","sin":"\#(opaque)",\#(note)"#)
    #expect(opaque.utf8.count <= 100)
  }

  /// Twilio's SDK needs a bridge token all the same.
  @Test func withoutCapability() {
    #expect(!encode(pushJob(), capability: "").text.contains("capability"))
    let twilio = encode(pushJob(dialect: .twilio), capability: "").text
    #expect(twilio.contains(#""twi_bridge_token":"\#(Self.call)","#))
  }

  /// Handles are ids, by which apps call back; names are what people read.
  @Test func namesOfCallers() {
    let ann = Party(user: "ann", device: "ann-phone", name: "Ann Lee")
    func text(_ dialect: PushDialect, _ purpose: PushPurpose = .ring) -> String {
      encode(pushJob(purpose, dialect: dialect, caller: ann)).text
    }
    for dialect in PushDialect.allCases {
      #expect(
        text(dialect).contains(#""caller":{"user":"ann","device":"ann-phone","name":"Ann Lee"}"#),
        "\(dialect)")
    }
    #expect(text(.apple).contains(#""handle":"ann","callerName":"Ann Lee","#))
    #expect(text(.telnyx).contains(#""caller_name":"Ann Lee","caller_number":"ann""#))
    #expect(!text(.sinch).contains("loc-args"))
    #expect(text(.callmesh, .missedNotice).contains(#""loc-args":["Ann Lee"]"#))
  }

  @Test(arguments: [
    (PushPurpose.ring, "Incoming call!"), (.missed, "Missed call!"),
    (.answeredElsewhere, "Answered Elsewhere"),
  ])
  func telnyx(purpose: PushPurpose, alert: String) {
    let metadata =
      #"{"voice_sdk_id":"\#(Self.call)","call_id":"\#(Self.call)","caller_name":"ann","#
      + #""caller_number":"ann"}"#
    #expect(
      encode(pushJob(purpose, dialect: .telnyx)).text
        == #"{"aps":{"alert":"\#(alert)"},"metadata":\#(metadata),\#(Self.note(purpose.name))}"#)
    let flat = encode(pushJob(purpose, dialect: .telnyx, provider: .fcm)).text
    if purpose == .answeredElsewhere {
      // The Android SDK would ring.
      #expect(flat == "none")
    } else {
      #expect(
        flat == #"{"message":"\#(alert)","metadata":""# + metadata.replacing("\"", with: "\\\"")
          + #"",\#(Self.flatNote(purpose.name))}"#)
    }
  }

  @Test func twilioCall() throws {
    let job = pushJob(
      dialect: .twilio,
      headers: [
        CustomHeader(name: "a b", value: "1&2=3%+"), CustomHeader(name: "ü", value: "~-._/"),
      ])
    let text = encode(job).text
    #expect(
      text.hasPrefix(
        #"{"aps":{},"twi_message_type":"twilio.voice.call","twi_call_sid":"CA\#(Self.hex)","#
          + #""twi_bridge_token":"cap","twi_from":"client:ann","twi_to":"client:bob","#
          + #""twi_account_sid":"AC"#))
    #expect(text.contains(#""twi_params":"a%20b=1%262%3D3%25%2B&%C3%BC=~-._%2F","callmesh":{"#))
    let account = try #require(text.firstMatch(of: /"twi_account_sid":"AC([0-9a-f]{32})"/)).1
    let message = try #require(text.firstMatch(of: /"twi_message_id":"WB([0-9a-f]{32})"/)).1
    // The same for the same push; the account for the same app.
    #expect(encode(job).text == text)
    var other = job
    other.device = "bob-tablet"
    let second = encode(other).text
    #expect(second.contains("AC" + account))
    #expect(!second.contains("WB" + message))
  }

  @Test(arguments: [
    ("+4930123456", "+4930123456"), ("+1", "client:+1"),
    ("+49301234567890123", "client:+49301234567890123"),
    ("+49 30123", "client:+49 30123"), ("4930123456", "client:4930123456"),
  ])
  func twilioAddress(user: String, address: String) {
    let job = pushJob(dialect: .twilio, caller: Party(user: user, device: "d"))
    #expect(encode(job).text.contains(#""twi_from":"\#(address)","#))
  }

  /// The system shows one of Sinch's two texts. A caller without a name has the one without an argument.
  @Test(arguments: ["", "Ann Lee"]) func sinchAlert(name: String) throws {
    let job = pushJob(
      dialect: .sinch, caller: Party(user: "ann", device: "ann-phone", name: name),
      pushData: "data", hasAlertToken: true)
    let payload = try #require(encode(job).payload)
    let alert =
      name.isEmpty
      ? #"{"loc-key":"SIN_INCOMING_CALL"}"#
      : #"{"loc-key":"SIN_INCOMING_CALL_DISPLAY_NAME","loc-args":["Ann Lee"]}"#
    let text = String(decoding: payload.bytes, as: UTF8.self)
    #expect(
      text.hasPrefix(
        #"{"aps":{"alert":\#(alert),"sound":"default"},"SIN":"\#(Self.opaque)","#
          + #""sin":"\#(Self.opaque)","#))
    #expect(payload.kind == .alert)
    #expect(payload.collapseKey == Self.hex)
    let invite = try #require(PushReader(.sinch).read(payload.bytes).invite)
    #expect(invite.capability == "cap" && invite.pushData == "data" && invite.handle == "ann")
  }

  @Test(arguments: PushDialect.allCases) func onlySinchRingsByAnAlert(dialect: PushDialect) {
    let payload = encode(pushJob(dialect: dialect, hasAlertToken: true)).payload
    #expect(payload?.kind == (dialect == .sinch ? .alert : .voip))
  }

  /// In the ring of every dialect, for the app and not for the person.
  @Test(arguments: PushDialect.allCases, [PushProvider.apns, .fcm, .webPush])
  func pushData(dialect: PushDialect, provider: PushProvider) throws {
    let data = #"{"room":7,"text":"größe \ €"}"#
    for isAlert in [false, true] {
      func job(_ purpose: PushPurpose) -> PushJob {
        pushJob(
          purpose, dialect: dialect, provider: provider, pushData: data, hasAlertToken: isAlert)
      }
      for purpose in PushPurpose.allCases where purpose != .ring {
        #expect(!encode(job(purpose)).text.contains("room"))
      }
      guard let ring = encode(job(.ring)).payload else { continue }
      let reader = PushReader(provider == .webPush ? .callmesh : dialect)
      #expect(try reader.read(ring.bytes).invite?.pushData == data)
      let aps = PayloadValue(json: ring.bytes)?["aps"]
      #expect(!String(describing: aps).contains("room"))
    }
    #expect(!encode(pushJob(dialect: dialect, provider: provider)).text.contains("pushData"))
  }

  @Test func sinchRelaysWhatItsOwnServerMade() {
    func relayed(_ count: Int) -> PayloadOutcome {
      let header = CustomHeader(name: "SIN", value: String(repeating: "ä", count: count / 2))
      return encode(pushJob(dialect: .sinch, headers: [header]))
    }
    #expect(relayed(100).text.contains(#""SIN":"äää"#))
    #expect(relayed(102) == .refused(.relayedTooLarge(bytes: 102)))
    #expect(relayed(102).rejection == .rejected(reason: "sinchPayloadTooLarge"))
  }

  @Test(arguments: EndReason.allCases) func ended(reason: EndReason) {
    let key =
      switch reason {
      case .answeredElsewhere, .glare, .moved, .transferred: "CALLMESH_ANSWERED_ELSEWHERE"
      case .declined: "CALLMESH_DECLINED_ELSEWHERE"
      case .cancelled, .unanswered, .busy, .unreachable: "CALLMESH_MISSED_CALL"
      case .hungUp, .failed: "CALLMESH_CALL_ENDED"
      }
    #expect(
      encode(pushJob(.ended, reason: reason)).text
        == #"{"aps":{"alert":{"loc-key":"\#(key)","loc-args":["ann"]},"content-available":1,"#
        + #""interruption-level":"passive","category":"CALLMESH_CALL_ENDED","#
        + #""thread-id":"\#(Self.hex)"},"#
        + Self.note("ended", #","reason":"\#(reason.name)""#) + "}")
  }

  @Test(arguments: [false, true]) func missedNotice(video: Bool) {
    let key = video ? "CALLMESH_MISSED_VIDEO_CALL" : "CALLMESH_MISSED_CALL"
    let note = Self.note("missedNotice")
    let noted = video ? note.replacing(#""placed"#, with: #""video":true,"placed"#) : note
    #expect(
      encode(pushJob(.missedNotice, video: video)).text
        == #"{"aps":{"alert":{"loc-key":"\#(key)","loc-args":["ann"]},"sound":"default","#
        + #""mutable-content":1,"category":"CALLMESH_MISSED_CALL","thread-id":"\#(Self.hex)"},"#
        + noted + "}")
  }

  /// 0 is a number, too: it removes the one at the app's icon.
  @Test(arguments: [PushPurpose.ended, .missedNotice], [0, 3] as [UInt32])
  func badge(purpose: PushPurpose, unread: UInt32) throws {
    let text = encode(pushJob(purpose, reason: .cancelled, unread: unread)).text
    #expect(text.contains(#""thread-id":"\#(Self.hex)","badge":\#(unread)},"callmesh":{"#))
    #expect(text.hasSuffix(#","reason":"cancelled","unread":\#(unread)}}"#))
    let flat = encode(pushJob(purpose, provider: .fcm, reason: .cancelled, unread: unread)).text
    #expect(flat.hasSuffix(#",\"reason\":\"cancelled\",\"unread\":\#(unread)}"}"#), "\(flat)")
    #expect(!flat.contains("badge"))
    let news = try PushReader(.callmesh).read(payload(flat))
    #expect((news.missed?.unread ?? news.stop?.unread) == unread)
    for provider in [PushProvider.apns, .fcm, .webPush] {
      let none = encode(pushJob(purpose, provider: provider)).text
      #expect(!none.contains("badge") && !none.contains("unread"))
    }
  }

  @Test func alertsAreTheSameInEveryDialect() {
    for job in pushJobs() where job.purpose == .ended || job.purpose == .missedNotice {
      #expect(encode(job) == encode(pushJob(job.purpose, provider: job.token.provider)))
    }
  }
}
