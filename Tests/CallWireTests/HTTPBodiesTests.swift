import CallCore
import CallWire
import Testing

@Suite struct HTTPBodiesTests {
  static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  @Test func answers() {
    let state = CallState(
      call: LimitTests.call, callee: "bob", phase: .ringing, version: 1_048_577,
      at: Timestamp(microseconds: 1_700_000_000_000_000),
      deadline: Timestamp(microseconds: 1_700_000_030_000_000))
    #expect(
      Self.text(HTTPBodies.callState(state))
        == #"{"call":{"callee":"bob","id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"},"#
        + #""phase":"ringing","version":1048577,"atMs":1700000000000,"deadlineMs":1700000030000}"#)
    #expect(
      Self.text(HTTPBodies.error(CallError(.tryAgain, "Say \"again\".", retryAfterMilliseconds: 5)))
        == #"{"error":{"code":501,"name":"tryAgain","message":"Say \"again\".","retryAfterMs":5}}"#)
    #expect(
      Self.text(
        HTTPBodies.registered(
          device: "a", expiresAt: Timestamp(microseconds: 5_000), removed: ["b", "c"]))
        == #"{"device":"a","expiresAtMs":5,"removedDevices":["b","c"]}"#)
  }

  @Test func register() throws {
    let body =
      #"{"device":"phone","deviceName":"Ann's phone","voipToken":{"provider":"apns","#
      + #""environment":"sandbox","topic":"org.example.voip","token":"c0ffee"}}"#
    let read = try HTTPBodies.register(Array(body.utf8), limits: CallLimits())
    #expect(
      read
        == HTTPBodies.Register(
          device: "phone",
          request: RegistrationRequest(
            deviceName: "Ann's phone",
            voipToken: PushToken(
              provider: .apns, environment: "sandbox", topic: "org.example.voip",
              token: "c0ffee"))))
    #expect(
      try HTTPBodies.register(Array("{}".utf8), limits: CallLimits())
        == HTTPBodies.Register(device: nil, request: RegistrationRequest()))
  }

  @Test(arguments: [
    ("", CallError.Code.malformedFrame), ("[]", .malformedFrame), ("{", .malformedFrame),
    (#"{"device":7}"#, .invalidField), (#"{"device":"a\u0000"}"#, .invalidDevice),
    (#"{"voipToken":{"token":"x"}}"#, .invalidPushToken),
    (#"{"voipToken":{"provider":"pigeon"}}"#, .invalidField),
  ]) func refusedRegisters(body: String, code: CallError.Code) {
    let error = #expect(throws: CallError.self) {
      try HTTPBodies.register(Array(body.utf8), limits: CallLimits())
    }
    #expect(error?.code == code)
  }

  @Test func decline() throws {
    #expect(try HTTPBodies.decline([]) == HTTPBodies.Decline())
    #expect(try HTTPBodies.decline(Array("{}".utf8)) == HTTPBodies.Decline())
    #expect(
      try HTTPBodies.decline(Array(#"{"device":"a","scope":"here"}"#.utf8))
        == HTTPBodies.Decline(device: "a", scope: .here))
    for bad in ["nonsense", #"{"scope":"there"}"#, #"{"device":"\n"}"#] {
      #expect(throws: CallError.self) { try HTTPBodies.decline(Array(bad.utf8)) }
    }
  }

  @Test func largeBodies() {
    let padding = String(repeating: " ", count: HTTPBodies.bytesMaximum)
    let error = #expect(throws: CallError.self) {
      try HTTPBodies.decline(Array(("{}" + padding).utf8))
    }
    #expect(error?.code == .frameTooLarge)
  }
}
