import CallCore
import CallWire
import Testing

/// Rules as JSON, and the answers to an app's server.
@Suite struct UserRulesBodyTests {
  private func read(_ text: String) throws(CallError) -> UserRules {
    try HTTPBodies.userRules(Array(text.utf8))
  }

  @Test func rulesAreReadAndWritten() throws {
    let text = """
      {"always":{"users":["cy"]},"noAnswerSeconds":25,"doNotDisturb":{"untilMs":1790000030000,\
      "except":["mum"]},"firstDevices":["phone"],"firstSeconds":12,"changedAtMs":5}
      """
    let rules = try read(text)
    #expect(
      rules
        == UserRules(
          always: UserRules.Forward(users: ["cy"]), noAnswerSeconds: 25,
          doNotDisturb: UserRules.DoNotDisturb(
            until: Timestamp(microseconds: 1_790_000_030_000_000), except: ["mum"]),
          firstDevices: ["phone"], firstSeconds: 12, changedAt: Timestamp(microseconds: 5000)))
    #expect(String(decoding: HTTPBodies.userRules(rules), as: UTF8.self) == text)
    #expect(HTTPBodies.readUserRules(Array(text.utf8)) == rules)
  }

  @Test func whatIsLeftOutIsStandard() throws {
    #expect(try read("{}") == UserRules())
    #expect(
      String(decoding: HTTPBodies.userRules(UserRules()), as: UTF8.self)
        == #"{"noAnswerSeconds":20,"firstSeconds":10,"changedAtMs":0}"#)
    #expect(try read(#"{"doNotDisturb":{}}"#).doNotDisturb == UserRules.DoNotDisturb())
  }

  /// Which rules are valid is `UserRulesTests`'.
  @Test(
    arguments: [
      ("", .malformedFrame), ("[]", .malformedFrame), (#"{"always":{}}"#, .invalidRules),
      (#"{"noAnswerSeconds":4}"#, .invalidRules),
      (String(repeating: "x", count: 65_537), .frameTooLarge),
    ] as [(String, CallError.Code)])
  func badBodiesAreRefused(text: String, code: CallError.Code) {
    let error = #expect(throws: CallError.self) { try read(text) }
    #expect(error?.code == code)
  }

  @Test func framesOfRulesAreChecked() throws {
    func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
    let read = try DeviceCodec.json.decodeClient(bytes(#"{"id":3,"rules":{}}"#))
    #expect(read == ClientFrame(id: 3, command: .rules(.read)))
    let set = try DeviceCodec.json.decodeClient(
      bytes(#"{"id":4,"setRules":{"onBusy":{"users":["cy"]}}}"#))
    let rules = UserRules(onBusy: UserRules.Forward(users: ["cy"]))
    #expect(set == ClientFrame(id: 4, command: .rules(.write(rules))))
    let error = DeviceCodec.json.refusal(bytes(#"{"id":5,"setRules":{"onBusy":{"users":[]}}}"#))
    #expect(error?.id == 5 && error?.code == .invalidRules)
  }

  @Test func answersToAnAppsServer() {
    func text(_ reply: AppReply) -> String {
      String(decoding: HTTPBodies.app(reply), as: UTF8.self)
    }
    let at = Timestamp(microseconds: 7000)
    let call = AppCall(
      state: CallState(call: CallID(high: 0, low: 1), callee: "bob", phase: .ringing, at: at),
      caller: Party(user: "ann", device: "a1"), placedAt: at)
    let callText =
      #"{"state":{"call":{"callee":"bob","id":"00000000-0000-0000-0000-000000000001"},"#
      + #""phase":"ringing","version":0,"atMs":7},"caller":{"user":"ann","device":"a1"},"#
      + #""placedAtMs":7}"#
    #expect(text(.call(call)) == callText)
    #expect(text(.calls(AppCalls([call]))) == #"{"calls":[\#(callText)]}"#)
    let page = AppCalls([call], next: call.place)
    #expect(
      text(.calls(page))
        == #"{"calls":[\#(callText)],"next":"7.00000000-0000-0000-0000-000000000001.bob"}"#)
    #expect(text(.calls(AppCalls())) == "{}")
    let device = AppUser.Device(device: "b1", name: "Phone", attachedAt: at, voipPush: .fcm)
    #expect(
      text(.user(AppUser(user: "bob", devices: [device])))
        == #"{"user":"bob","devices":[{"device":"b1","name":"Phone","attached":true,"#
        + #""attachedAtMs":7,"registered":false,"voipPush":"fcm"}]}"#)
    #expect(HTTPBodies.readAppCall(HTTPBodies.app(.call(call))) == call)
    #expect(HTTPBodies.readAppCalls(HTTPBodies.app(.calls(page))) == page)
    #expect(HTTPBodies.readAppUser(HTTPBodies.app(.user(AppUser(user: "bob"))))?.user == "bob")
    #expect(HTTPBodies.readAppUser(Array("{}".utf8)) == nil)
    var named = AppUser(user: "bob")
    named.name = "Bob Stone"
    #expect(text(.user(named)) == #"{"user":"bob","name":"Bob Stone"}"#)
    #expect(text(.name("Bob Stone")) == #"{"name":"Bob Stone"}"# && text(.name("")) == "{}")
  }

  @Test func namesAreCleaned() throws {
    func read(_ text: String) throws -> String { try HTTPBodies.displayName(Array(text.utf8)) }
    #expect(try read(#"{"name":"Ann Lee"}"#) == "Ann Lee")
    #expect(try read(#"{"name":"\u202eAnn\u0000 Lee"}"#) == "Ann Lee")
    #expect(try read(#"{"name":"\#(String(repeating: "x", count: 60_000))"}"#).utf8.count == 128)
    #expect(try read("{}") == "" && read(#"{"other":7}"#) == "")
    for text in ["", "7", #"{"name":["Ann"]}"#] {
      #expect(throws: CallError.self) { try read(text) }
    }
  }
}
