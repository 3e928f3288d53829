import CallClient
import CallCore
import CallPush
import Testing

/// Payloads from the vendors' documents, and malformed ones.
@Suite struct DialectForeignTests {
  static let id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
  static let call = CallID(id)!
  static let sid = #""twi_call_sid":"CA6ba7b8109dad11d180b400c04fd430c8""#

  /// Telnyx's on Android.
  static let flatMetadata =
    #"{\"call_id\":\"\#(id)\",\"caller_name\":\"Ann\",\"caller_number\":\"7\"}"#

  func read(
    _ dialect: PushDialect, _ text: String, sdk: Int? = nil
  ) throws(PushReadError) -> PushNews {
    try PushReader(dialect, sdkMajorVersion: sdk).read(payload(text))
  }

  // MARK: The vendors' own

  private func check(
    _ dialect: PushDialect, _ text: String, sdk: Int? = nil, _ news: PushNews,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    #expect(try read(dialect, text, sdk: sdk) == news, sourceLocation: sourceLocation)
  }

  @Test func calls() throws {
    func call(_ handle: String, video: Bool = false) -> PushNews {
      .invite(PushInvite(call: Self.call, handle: handle, video: video))
    }
    let id = Self.id
    try check(
      .apple, #"{"callUUID":"\#(id.uppercased())","handle":"+15551234567"}"#, call("+15551234567"))
    for video in [false, true] {
      let text = #"{"UUID":"\#(id)","handle":"1001","hasVideo":\#(video)}"#
      try check(.fcsdk, text, call("1001", video: video))
    }
    try check(
      .telnyx,
      #"{"metadata":{"voice_sdk_id":"12345","call_id":"\#(id)","caller_name":"John Doe","#
        + #""caller_number":"+15551234567"},"aps":{"alert":"Incoming call!"}}"#,
      call("+15551234567"))
    // The caller's name and number are optional, and any other alert is a call.
    try check(
      .telnyx,
      #"{"metadata":{"voice_sdk_id":"1","call_id":"\#(id)"},"aps":{"alert":"missed call!"}}"#,
      call(""))
    try check(
      .telnyx, #"{"message":"Incoming call!","metadata":"\#(Self.flatMetadata)"}"#, call("7"))
    // Ours alone is enough for Sinch.
    try check(
      .sinch,
      #"{"aps":{"alert":{"loc-key":"SIN_INCOMING_CALL_DISPLAY_NAME","loc-args":["Ann"]}},"#
        + #""sin":"cm1.6ba7b8109dad11d180b400c04fd430c8.1a0c4506c14.1a0c450e130.v"}"#,
      .invite(
        PushInvite(
          call: Self.call, handle: "Ann", video: true,
          sentAt: Timestamp(microseconds: 1_790_000_000_020_000),
          deadline: Timestamp(microseconds: 1_790_000_030_000_000))))
  }

  @Test func twilioCall() throws {
    let text =
      #"{"aps":{},"twi_message_type":"twilio.voice.call",\#(Self.sid),"twi_bridge_token":"eyJ","#
      + #""twi_from":"client:alice","twi_to":"client:bob","#
      + #""twi_account_sid":"AC00000000000000000000000000000000","#
      + #""twi_message_id":"WB00000000000000000000000000000000","#
      + #""twi_params":"team=A%26B&note=a+b%20c&empty=&bare"}"#
    var invite = PushInvite(
      call: Self.call, callee: "bob", handle: "alice",
      headers: [
        CustomHeader(name: "team", value: "A&B"), CustomHeader(name: "note", value: "a b c"),
        CustomHeader(name: "empty", value: ""), CustomHeader(name: "bare", value: ""),
      ])
    try check(.twilio, text, .invite(invite))
    invite.handle = "+15551234567"
    try check(.twilio, text.replacing("client:alice", with: invite.handle), .invite(invite))
  }

  /// Telnyx: the text to the letter, and the reason of each version's guide.
  @Test func ends() throws {
    func end(_ purpose: PushPurpose, _ callKit: Int) -> PushNews {
      .stop(PushStop(call: Self.call, purpose: purpose, callKitReason: callKit))
    }
    func telnyx(_ alert: String) -> String {
      #"{"aps":{"alert":"\#(alert)"},"metadata":{"call_id":"\#(Self.id)"}}"#
    }
    for (sdk, callKit) in [(3, 4), (4, 3), (nil, 3)] as [(Int?, Int)] {
      try check(.telnyx, telnyx("Missed call!"), sdk: sdk, end(.missed, callKit))
    }
    for sdk in [4, nil] {
      try check(.telnyx, telnyx("Answered Elsewhere"), sdk: sdk, end(.answeredElsewhere, 4))
    }
    try check(
      .telnyx, #"{"message":"Missed call!","metadata":"\#(Self.flatMetadata)"}"#, end(.missed, 3))
    try check(
      .twilio,
      #"{"twi_message_type":"twilio.voice.cancel",\#(Self.sid),"twi_from":"client:alice","#
        + #""twi_to":"client:bob"}"#, end(.cancel, 2))
  }

  @Test(arguments: ["", #""call_id":"","#, #""call_id":"not a uuid","#, #""call_id":7,"#])
  func telnyxBadCallID(member: String) throws {
    let text =
      #"{"aps":{"alert":"Missed call!"},"metadata":{\#(member)"voice_sdk_id":"1"}"#
    #expect(throws: PushReadError.invalid("metadata.call_id")) { try read(.telnyx, text + "}") }
    // Ours beside it says which call it is.
    let note =
      "," + Self.note(#""ring""#, #""missed""#).dropFirst()
    #expect(try read(.telnyx, text + note).call == Self.call)
  }

  @Test(arguments: ["%", "a=%4", "a=%zz", "%ff=1"]) func twilioBadParameters(text: String) {
    let text =
      #"{"twi_message_type":"twilio.voice.call",\#(Self.sid),"twi_from":"a","twi_params":"\#(text)"}"#
    #expect(throws: PushReadError.invalid("twi_params")) { try read(.twilio, text) }
  }

  @Test func sinchsOwnTextIsOpaque() {
    for text in [
      #"{"aps":{"alert":"Incoming call from Ann","sound":"x.wav"},"SIN":"AQELLm5hdGl2ZQ=="}"#,
      #"{"aps":{"alert":{"loc-key":"SIN_INCOMING_CALL"}},"sin":"AQEL"}"#,
    ] {
      #expect(throws: PushReadError.foreign) { try read(.sinch, text) }
    }
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

  static func note(_ replace: String, _ with: String) -> String {
    (#"{"callmesh":{"v":1,"purpose":"ring","call":"\#(id)","callee":"bob","#
      + #""caller":{"user":"ann"},"sentAtMs":1,"deadlineMs":2}}"#)
      .replacing(replace, with: with)
  }

  static func cancel(_ sid: String) -> String {
    #"{"twi_message_type":"twilio.voice.cancel","twi_call_sid":"\#(sid)"}"#
  }

  static let bad: [(PushDialect, String, PushReadError)] =
    [
      (.callmesh, "", .notAPayload), (.callmesh, "[]", .notAPayload),
      (.callmesh, "{", .notAPayload),
      (.callmesh, "{}x", .notAPayload), (.callmesh, #"{"a":"\ud800"}"#, .notAPayload),
      (.callmesh, #"{"a":1e999}"#, .notAPayload), (.callmesh, "{}", .foreign),
      (.callmesh, #"{"callmesh":null}"#, .foreign),
      (.callmesh, #"{"callmesh":7}"#, .invalid("callmesh")),
      (.callmesh, #"{"callmesh":"{"}"#, .invalid("callmesh")),
      (.callmesh, note(#""v":1,"#, ""), .missing("callmesh.v")),
      (.callmesh, note(#""v":1"#, #""v":"1""#), .invalid("callmesh.v")),
      (.callmesh, note(#""v":1"#, #""v":1.5"#), .invalid("callmesh.v")),
      (.callmesh, note(#""v":1"#, #""v":2"#), .laterVersion(2)),
      (.callmesh, note(#""ring""#, #""dance""#), .invalid("callmesh.purpose")),
      (.callmesh, note("6ba7b810-", "6ba7b810"), .invalid("callmesh.call")),
      (.callmesh, note(#""callee":"bob","#, ""), .missing("callmesh.callee")),
      (.callmesh, note(#""bob""#, #""""#), .invalid("callmesh.callee")),
      (.callmesh, note(#""caller":{"user":"ann"},"#, ""), .missing("callmesh.caller")),
      (.callmesh, note(#"{"user":"ann"}"#, #"{"user":""}"#), .invalid("callmesh.caller")),
      (.callmesh, note(#"{"user":"ann"}"#, #""ann""#), .invalid("callmesh.caller")),
      (.callmesh, note(#""ann""#, #""ann","device":7"#), .invalid("callmesh.caller.device")),
      (.callmesh, note(#""sentAtMs":1,"#, ""), .missing("callmesh.sentAtMs")),
      (.callmesh, note(#""sentAtMs":1"#, #""sentAtMs":-1"#), .invalid("callmesh.sentAtMs")),
      (.callmesh, note(#","deadlineMs":2"#, ""), .missing("callmesh.deadlineMs")),
      (.callmesh, note(#""deadlineMs":2"#, #""deadlineMs":9e15"#), .invalid("callmesh.deadlineMs")),
      (.callmesh, note(#""v":1"#, #""v":1,"video":"yes""#), .invalid("callmesh.video")),
      (.callmesh, note(#""v":1"#, #""v":1,"headers":{}"#), .invalid("callmesh.headers")),
      (.callmesh, note(#""v":1"#, #""v":1,"headers":[1]"#), .invalid("callmesh.headers")),
      (.callmesh, note(#""v":1"#, #""v":1,"capability":1"#), .invalid("callmesh.capability")),
      (.callmesh, note(#""v":1"#, #""v":1,"reason":1"#), .invalid("callmesh.reason")),

      (.apple, "{}", .foreign), (.apple, #"{"handle":"a"}"#, .missing("callUUID")),
      (.apple, #"{"callUUID":"x","handle":"a"}"#, .invalid("callUUID")),
      (.apple, #"{"callUUID":"\#(id)"}"#, .missing("handle")), (.fcsdk, "{}", .foreign),
      (.fcsdk, #"{"UUID":"\#(id)","handle":"a"}"#, .missing("hasVideo")),
      (.fcsdk, #"{"UUID":"\#(id)","handle":"a","hasVideo":"true"}"#, .invalid("hasVideo")),
      (.fcsdk, #"{"UUID":7,"handle":"a","hasVideo":true}"#, .invalid("UUID")),
      (.telnyx, "{}", .foreign), (.telnyx, #"{"metadata":7}"#, .invalid("metadata")),
      (.telnyx, #"{"metadata":"["}"#, .invalid("metadata")),
      (.telnyx, #"{"aps":{"alert":7},"metadata":{"call_id":"\#(id)"}}"#, .invalid("aps.alert")),
      (.twilio, "{}", .foreign),
      (.twilio, #"{"twi_message_type":"twilio.voice.dance"}"#, .invalid("twi_message_type")),
      (.twilio, #"{"twi_message_type":"twilio.voice.cancel"}"#, .missing("twi_call_sid")),
      (.twilio, cancel("CA6"), .invalid("twi_call_sid")),
      (.twilio, cancel("CAzba7b8109dad11d180b400c04fd430c8"), .invalid("twi_call_sid")),
      (.sinch, "{}", .foreign), (.sinch, #"{"sin":7}"#, .invalid("SIN")),
      // No depth and no length traps.
      (.callmesh, #"{"a":"# + String(repeating: "[", count: 10_000), .notAPayload),
      (.callmesh, #"{"a":""# + String(repeating: "x", count: 17_000) + #""}"#, .notAPayload),
    ]

  @Test(arguments: bad) func clearErrors(dialect: PushDialect, text: String, error: PushReadError) {
    #expect(throws: error) { try read(dialect, text) }
    #expect(!error.description.isEmpty)
  }

  /// A payload with two contradicting parts is refused.
  @Test func contradictions() {
    let other = Self.note("6ba7b810", "00000000").dropFirst()
    let apple = #"{"callUUID":"\#(Self.id)","handle":"ann","#
    #expect(throws: PushReadError.invalid("callUUID")) { try read(.apple, apple + other) }
    let cancel = Self.note(#""ring""#, #""cancel""#).dropFirst()
    #expect(throws: PushReadError.invalid("callmesh.purpose")) { try read(.apple, apple + cancel) }
  }

  @Test func unknownMembersAndReasonsOfLaterVersionsAreRead() throws {
    let text = Self.note(#""v":1"#, #""v":1,"later":{"a":[1,2,{}]},"reason":"abducted""#)
      .replacing(#""ring""#, with: #""ended""#)
    let stop = try #require(read(.callmesh, text).stop)
    #expect(stop.reason == nil && stop.callKitReason == 2)
  }
}
