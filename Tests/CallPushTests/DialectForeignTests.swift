import CallClient
import CallCore
import CallPush
import CallWire
import Testing

/// Payloads from the vendors' documents, and malformed ones.
@Suite struct DialectForeignTests {
  static let call = CallID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")!

  func read(
    _ dialect: PushDialect, _ text: String, sdk: Int? = nil
  ) throws(PushReadError) -> PushNews {
    try PushReader(dialect, sdkMajorVersion: sdk).read(payload(text))
  }

  // MARK: The vendors' own

  @Test func apple() throws {
    let news = try read(
      .apple, #"{"callUUID":"6BA7B810-9DAD-11D1-80B4-00C04FD430C8","handle":"+15551234567"}"#)
    #expect(news == .invite(PushInvite(call: Self.call, handle: "+15551234567")))
  }

  @Test(arguments: [false, true]) func fcsdk(video: Bool) throws {
    let text =
      #"{"UUID":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","handle":"1001","hasVideo":\#(video)}"#
    #expect(
      try read(.fcsdk, text) == .invite(PushInvite(call: Self.call, handle: "1001", video: video)))
  }

  @Test func telnyxCall() throws {
    let text =
      #"{"metadata":{"voice_sdk_id":"12345","call_id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","#
      + #""caller_name":"John Doe","caller_number":"+15551234567"},"aps":{"alert":"Incoming call!"}}"#
    #expect(
      try read(.telnyx, text) == .invite(PushInvite(call: Self.call, handle: "+15551234567")))
    // The caller's name and number are optional, and any other alert is a call.
    let bare =
      #"{"metadata":{"voice_sdk_id":"1","call_id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"},"#
      + #""aps":{"alert":"missed call!"}}"#
    #expect(try read(.telnyx, bare) == .invite(PushInvite(call: Self.call, handle: "")))
  }

  /// The text to the letter, and the reason of each version's guide.
  @Test(arguments: [
    ("Missed call!", 3, 4), ("Missed call!", 4, 3), ("Missed call!", nil, 3),
    ("Answered Elsewhere", 4, 4), ("Answered Elsewhere", nil, 4),
  ])
  func telnyxEnd(alert: String, sdk: Int?, callKit: Int) throws {
    let text =
      #"{"aps":{"alert":"\#(alert)"},"#
      + #""metadata":{"call_id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}}"#
    #expect(
      try read(.telnyx, text, sdk: sdk)
        == .stop(
          PushStop(
            call: Self.call, purpose: alert == "Missed call!" ? .missed : .answeredElsewhere,
            callKitReason: callKit)))
  }

  @Test(arguments: ["", #""call_id":"","#, #""call_id":"not a uuid","#, #""call_id":7,"#])
  func telnyxBadCallID(member: String) throws {
    let text =
      #"{"aps":{"alert":"Missed call!"},"metadata":{\#(member)"voice_sdk_id":"1"}"#
    #expect(throws: PushReadError.invalid("metadata.call_id")) { try read(.telnyx, text + "}") }
    // Ours beside it says which call it is.
    let note =
      #","callmesh":{"v":1,"purpose":"missed","call":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","#
      + #""callee":"bob","caller":{"user":"ann"},"sentAtMs":1,"deadlineMs":2}}"#
    #expect(try read(.telnyx, text + note).call == Self.call)
  }

  @Test func telnyxOnAndroid() throws {
    let metadata =
      #"{\"call_id\":\"6ba7b810-9dad-11d1-80b4-00c04fd430c8\",\"caller_name\":\"Ann\",\"caller_number\":\"7\"}"#
    #expect(
      try read(.telnyx, #"{"message":"Incoming call!","metadata":"\#(metadata)"}"#)
        == .invite(PushInvite(call: Self.call, handle: "7")))
    #expect(
      try read(.telnyx, #"{"message":"Missed call!","metadata":"\#(metadata)"}"#)
        == .stop(PushStop(call: Self.call, purpose: .missed, callKitReason: 3)))
  }

  @Test func twilioCall() throws {
    let text =
      #"{"aps":{},"twi_message_type":"twilio.voice.call","#
      + #""twi_call_sid":"CA6ba7b8109dad11d180b400c04fd430c8","twi_bridge_token":"eyJ","#
      + #""twi_from":"client:alice","twi_to":"client:bob","#
      + #""twi_account_sid":"AC00000000000000000000000000000000","#
      + #""twi_message_id":"WB00000000000000000000000000000000","#
      + #""twi_params":"team=A%26B&note=a+b%20c&empty=&bare"}"#
    #expect(
      try read(.twilio, text)
        == .invite(
          PushInvite(
            call: Self.call, callee: "bob", handle: "alice",
            headers: [
              CustomHeader(name: "team", value: "A&B"), CustomHeader(name: "note", value: "a b c"),
              CustomHeader(name: "empty", value: ""), CustomHeader(name: "bare", value: ""),
            ])))
    let number = text.replacing("client:alice", with: "+15551234567")
    guard case .invite(let invite) = try read(.twilio, number) else { return }
    #expect(invite.handle == "+15551234567")
  }

  @Test(arguments: ["%", "a=%4", "a=%zz", "%ff=1"]) func twilioBadParameters(text: String) {
    let text =
      #"{"twi_message_type":"twilio.voice.call","#
      + #""twi_call_sid":"CA6ba7b8109dad11d180b400c04fd430c8","twi_from":"a","twi_params":"\#(text)"}"#
    #expect(throws: PushReadError.invalid("twi_params")) { try read(.twilio, text) }
  }

  @Test func twilioCancel() throws {
    let text =
      #"{"twi_message_type":"twilio.voice.cancel","#
      + #""twi_call_sid":"CA6ba7b8109dad11d180b400c04fd430c8","twi_from":"client:alice","#
      + #""twi_to":"client:bob"}"#
    #expect(
      try read(.twilio, text)
        == .stop(PushStop(call: Self.call, purpose: .cancel, callKitReason: 2)))
  }

  @Test func sinch() throws {
    // Sinch's own text is opaque.
    for text in [
      #"{"aps":{"alert":"Incoming call from Ann","sound":"x.wav"},"SIN":"AQELLm5hdGl2ZQ=="}"#,
      #"{"aps":{"alert":{"loc-key":"SIN_INCOMING_CALL"}},"sin":"AQEL"}"#,
    ] {
      #expect(throws: PushReadError.foreign) { try read(.sinch, text) }
    }
    // Ours alone is enough.
    let own =
      #"{"aps":{"alert":{"loc-key":"SIN_INCOMING_CALL_DISPLAY_NAME","loc-args":["Ann"]}},"#
      + #""sin":"cm1.6ba7b8109dad11d180b400c04fd430c8.1a0c4506c14.1a0c450e130.v"}"#
    #expect(
      try read(.sinch, own)
        == .invite(
          PushInvite(
            call: Self.call, handle: "Ann", video: true,
            sentAt: Timestamp(microseconds: 1_790_000_000_020_000),
            deadline: Timestamp(microseconds: 1_790_000_030_000_000))))
    for bad in [
      "cm1.", "cm1.a.b.c.d", "cm1.6ba7b8109dad11d180b400c04fd430c8.-1.1.a",
      "cm1.6ba7b8109dad11d180b400c04fd430c8.1.1.x",
      "cm1.6ba7b8109dad11d180b400c04fd430c8.1.fffffffffffffffff.a",
      String(repeating: "a", count: 101),
    ] {
      #expect(throws: PushReadError.invalid("SIN")) { try read(.sinch, #"{"SIN":"\#(bad)"}"#) }
    }
  }

  // MARK: What should not be

  struct Bad: Sendable {
    var dialect: PushDialect
    var text: String
    var error: PushReadError
    init(_ dialect: PushDialect, _ text: String, _ error: PushReadError) {
      self.dialect = dialect
      self.text = text
      self.error = error
    }
  }

  static func note(_ replace: String, _ with: String) -> String {
    (#"{"callmesh":{"v":1,"purpose":"ring","call":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","#
      + #""callee":"bob","caller":{"user":"ann"},"sentAtMs":1,"deadlineMs":2}}"#)
      .replacing(replace, with: with)
  }

  static let bad: [Bad] = [
    Bad(.callmesh, "", .notAPayload), Bad(.callmesh, "[]", .notAPayload),
    Bad(.callmesh, "{", .notAPayload), Bad(.callmesh, "{}x", .notAPayload),
    Bad(.callmesh, #"{"a":"\ud800"}"#, .notAPayload), Bad(.callmesh, #"{"a":1e999}"#, .notAPayload),
    Bad(.callmesh, "{}", .foreign), Bad(.callmesh, #"{"callmesh":null}"#, .foreign),
    Bad(.callmesh, #"{"callmesh":7}"#, .invalid("callmesh")),
    Bad(.callmesh, #"{"callmesh":"{"}"#, .invalid("callmesh")),
    Bad(.callmesh, note(#""v":1,"#, ""), .missing("callmesh.v")),
    Bad(.callmesh, note(#""v":1"#, #""v":"1""#), .invalid("callmesh.v")),
    Bad(.callmesh, note(#""v":1"#, #""v":1.5"#), .invalid("callmesh.v")),
    Bad(.callmesh, note(#""v":1"#, #""v":2"#), .laterVersion(2)),
    Bad(.callmesh, note(#""ring""#, #""dance""#), .invalid("callmesh.purpose")),
    Bad(.callmesh, note("6ba7b810-", "6ba7b810"), .invalid("callmesh.call")),
    Bad(.callmesh, note(#""callee":"bob","#, ""), .missing("callmesh.callee")),
    Bad(.callmesh, note(#""bob""#, #""""#), .invalid("callmesh.callee")),
    Bad(.callmesh, note(#""caller":{"user":"ann"},"#, ""), .missing("callmesh.caller")),
    Bad(.callmesh, note(#"{"user":"ann"}"#, #"{"user":""}"#), .invalid("callmesh.caller")),
    Bad(.callmesh, note(#"{"user":"ann"}"#, #""ann""#), .invalid("callmesh.caller")),
    Bad(
      .callmesh, note(#""user":"ann""#, #""user":"ann","device":7"#),
      .invalid("callmesh.caller.device")),
    Bad(.callmesh, note(#""sentAtMs":1,"#, ""), .missing("callmesh.sentAtMs")),
    Bad(.callmesh, note(#""sentAtMs":1"#, #""sentAtMs":-1"#), .invalid("callmesh.sentAtMs")),
    Bad(.callmesh, note(#","deadlineMs":2"#, ""), .missing("callmesh.deadlineMs")),
    Bad(
      .callmesh, note(#""deadlineMs":2"#, #""deadlineMs":9e15"#), .invalid("callmesh.deadlineMs")),
    Bad(.callmesh, note(#""v":1"#, #""v":1,"video":"yes""#), .invalid("callmesh.video")),
    Bad(.callmesh, note(#""v":1"#, #""v":1,"headers":{}"#), .invalid("callmesh.headers")),
    Bad(.callmesh, note(#""v":1"#, #""v":1,"headers":[1]"#), .invalid("callmesh.headers")),
    Bad(.callmesh, note(#""v":1"#, #""v":1,"capability":1"#), .invalid("callmesh.capability")),
    Bad(.callmesh, note(#""v":1"#, #""v":1,"reason":1"#), .invalid("callmesh.reason")),

    Bad(.apple, "{}", .foreign), Bad(.apple, #"{"handle":"a"}"#, .missing("callUUID")),
    Bad(.apple, #"{"callUUID":"x","handle":"a"}"#, .invalid("callUUID")),
    Bad(.apple, #"{"callUUID":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}"#, .missing("handle")),
    Bad(.fcsdk, "{}", .foreign),
    Bad(
      .fcsdk, #"{"UUID":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","handle":"a"}"#, .missing("hasVideo")
    ),
    Bad(
      .fcsdk, #"{"UUID":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","handle":"a","hasVideo":"true"}"#,
      .invalid("hasVideo")),
    Bad(.fcsdk, #"{"UUID":7,"handle":"a","hasVideo":true}"#, .invalid("UUID")),
    Bad(.telnyx, "{}", .foreign), Bad(.telnyx, #"{"metadata":7}"#, .invalid("metadata")),
    Bad(.telnyx, #"{"metadata":"["}"#, .invalid("metadata")),
    Bad(
      .telnyx,
      #"{"aps":{"alert":7},"metadata":{"call_id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}}"#,
      .invalid("aps.alert")),
    Bad(.twilio, "{}", .foreign),
    Bad(.twilio, #"{"twi_message_type":"twilio.voice.dance"}"#, .invalid("twi_message_type")),
    Bad(.twilio, #"{"twi_message_type":"twilio.voice.cancel"}"#, .missing("twi_call_sid")),
    Bad(
      .twilio, #"{"twi_message_type":"twilio.voice.cancel","twi_call_sid":"CA6"}"#,
      .invalid("twi_call_sid")),
    Bad(
      .twilio,
      #"{"twi_message_type":"twilio.voice.cancel","twi_call_sid":"CAzba7b8109dad11d180b400c04fd430c8"}"#,
      .invalid("twi_call_sid")),
    Bad(.sinch, "{}", .foreign), Bad(.sinch, #"{"sin":7}"#, .invalid("SIN")),
  ]

  @Test(arguments: bad) func clearErrors(bad: Bad) {
    #expect(throws: bad.error) { try read(bad.dialect, bad.text) }
    #expect(!bad.error.description.isEmpty)
  }

  /// A payload with two contradicting parts is refused.
  @Test func contradictions() {
    let other = Self.note("6ba7b810", "00000000").dropFirst()
    let apple = #"{"callUUID":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","handle":"ann","#
    #expect(throws: PushReadError.invalid("callUUID")) { try read(.apple, apple + other) }
    let cancel = Self.note(#""ring""#, #""cancel""#).dropFirst()
    #expect(throws: PushReadError.invalid("callmesh.purpose")) { try read(.apple, apple + cancel) }
  }

  @Test func unknownMembersAndReasonsOfLaterVersionsAreRead() throws {
    let text = Self.note(#""v":1"#, #""v":1,"later":{"a":[1,2,{}]},"reason":"abducted""#)
      .replacing(#""ring""#, with: #""ended""#)
    guard case .stop(let stop) = try read(.callmesh, text) else {
      Issue.record("no stop")
      return
    }
    #expect(stop.reason == nil && stop.callKitReason == 2)
  }

  /// Any bytes, and any damaged payload, give news or an error.
  @Test func noBytesTrap() throws {
    var random = SplitMix64(seed: 7)
    let good = Self.sent
    for round in 0..<20_000 {
      var bytes = good[round % good.count]
      for _ in 0..<Int.random(in: 1...3, using: &random) where !bytes.isEmpty {
        let index = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: bytes.remove(at: index)
        case 1: bytes.insert(UInt8.random(in: 0...255, using: &random), at: index)
        case 2: bytes.removeSubrange(index...)
        default: bytes[index] = UInt8.random(in: 0...255, using: &random)
        }
      }
      for dialect in PushDialect.allCases { _ = try? PushReader(dialect).read(bytes) }
    }
    let deep = String(repeating: "[", count: 10_000)
    #expect(throws: PushReadError.notAPayload) { try read(.callmesh, #"{"a":"# + deep) }
    #expect(throws: PushReadError.notAPayload) {
      try read(.callmesh, #"{"a":""# + String(repeating: "x", count: 17_000) + #""}"#)
    }
  }

  static let sent: [[UInt8]] = DialectRoundTripTests.sent.compactMap {
    encode($0).payload?.bytes
  }
}
