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
          RegisteredInfo(
            device: "a", expiresAt: Timestamp(microseconds: 5_000), removed: ["b", "c"],
            capabilities: [.missed, .ended])))
        == #"{"device":"a","expiresAtMs":5,"removedDevices":["b","c"],"#
        + #""capabilities":["missed","ended"]}"#)
  }

  @Test func register() throws {
    let token = String(repeating: "c0ffee42", count: 8)
    let body =
      #"{"device":"phone","deviceName":"Ann's phone","voipToken":{"provider":"apns","#
      + #""environment":"sandbox","topic":"org.example.voip","token":"\#(token)"}}"#
    let read = try HTTPBodies.register(Array(body.utf8))
    #expect(
      read
        == HTTPBodies.Register(
          device: "phone",
          request: RegistrationRequest(
            deviceName: "Ann's phone",
            voipToken: PushToken(
              provider: .apns, environment: "sandbox", topic: "org.example.voip",
              token: token))))
    #expect(
      try HTTPBodies.register(Array("{}".utf8))
        == HTTPBodies.Register(device: nil, request: RegistrationRequest()))
  }

  @Test(arguments: [
    ("", CallError.Code.malformedFrame), ("[]", .malformedFrame), ("{", .malformedFrame),
    (#"{"device":7}"#, .invalidField), (#"{"device":"a\u0000"}"#, .invalidDevice),
    (#"{"voipToken":{"token":"x"}}"#, .invalidPushToken),
    (#"{"voipToken":{"provider":"fcm"}}"#, .invalidPushToken),
    (#"{"voipToken":{"provider":"pigeon"}}"#, .invalidField),
    (#"{"capabilities":"missed"}"#, .invalidField),
  ]) func refusedRegisters(body: String, code: CallError.Code) {
    let error = #expect(throws: CallError.self) {
      try HTTPBodies.register(Array(body.utf8))
    }
    #expect(error?.code == code)
  }

  @Test func decline() throws {
    #expect(try HTTPBodies.decline([]) == HTTPBodies.Decline())
    #expect(try HTTPBodies.decline(Array("{}".utf8)) == HTTPBodies.Decline())
    #expect(
      try HTTPBodies.decline(Array(#"{"device":"a","scope":"here"}"#.utf8))
        == HTTPBodies.Decline(device: "a", scope: .here))
    #expect(
      try HTTPBodies.decline(Array(#"{"capability":"AbC-_"}"#.utf8))
        == HTTPBodies.Decline(capability: "AbC-_"))
    for bad in ["nonsense", #"{"scope":"there"}"#, #"{"capability":7}"#, #"{"device":"\n"}"#] {
      #expect(throws: CallError.self) { try HTTPBodies.decline(Array(bad.utf8)) }
    }
  }

  /// An edge reads the bodies that a client writes, and the other way round.
  @Test func bothSidesAgree() throws {
    var generator = Generator(seed: 20)
    for _ in 0..<500 {
      let register = HTTPBodies.Register(
        device: generator.chance(50) ? generator.device() : nil,
        request: generator.registration())
      try #require(try HTTPBodies.register(HTTPBodies.encode(register)) == register)
      let decline = HTTPBodies.Decline(
        device: generator.chance(50) ? generator.device() : nil,
        scope: generator.chance(50) ? .here : .everywhere,
        capability: generator.chance(50) ? "AbC" : "")
      try #require(try HTTPBodies.decline(HTTPBodies.encode(decline)) == decline)
      let state = generator.state()
      try #require(HTTPBodies.readCallState(HTTPBodies.callState(state)) == state)
      let info = RegisteredInfo(
        device: generator.device(), expiresAt: generator.milliseconds(),
        removed: [generator.device()], capabilities: generator.capabilities())
      try #require(HTTPBodies.readRegistered(HTTPBodies.registered(info)) == info)
      let error = generator.error()
      try #require(HTTPBodies.readError(HTTPBodies.error(error)) == error)
    }
  }

  @Test(arguments: ["", "{}", "[]", "<html>", #"{"error":7}"#, #"{"call":{}}"#, "{\"error\":{"])
  func whatIsNoAnswerIsNone(body: String) {
    let bytes = Array(body.utf8)
    #expect(HTTPBodies.readCallState(bytes) == nil)
    #expect(HTTPBodies.readRegistered(bytes) == nil)
    #expect(HTTPBodies.readError(bytes) == nil)
  }

  @Test func nothingPrintsACapability() {
    let decline = HTTPBodies.Decline(device: "phone", capability: "s3cret")
    var dumped = ""
    dump(decline, to: &dumped)
    for text in ["\(decline)", String(reflecting: decline), dumped] {
      #expect(text.contains("phone") && !text.contains("s3cret"))
    }
  }

  @Test func largeBodies() {
    let padding = String(repeating: " ", count: HTTPBodies.bytesMaximum)
    let error = #expect(throws: CallError.self) {
      try HTTPBodies.decline(Array(("{}" + padding).utf8))
    }
    #expect(error?.code == .frameTooLarge)
    let deep = #expect(throws: CallError.self) {
      try HTTPBodies.register(Array(repeating: UInt8(ascii: "["), count: 60_000))
    }
    #expect(deep?.code == .malformedFrame)
  }
}
