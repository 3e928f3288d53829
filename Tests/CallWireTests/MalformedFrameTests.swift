import CallCore
import CallWire
import Testing

/// Frames that are wrong in one known way, and what each is answered.
@Suite struct MalformedFrameTests {
  // MARK: Protobuf, byte by byte

  static let callID: [UInt8] = Array(1...16)

  /// One length-delimited field.
  static func field(_ number: UInt8, _ bytes: [UInt8]) -> [UInt8] {
    [number << 3 | 2] + FuzzTests.varint(bytes.count) + bytes
  }

  /// A frame with number 9 and a command in `field`. Fields up to 15.
  static func frame(_ number: UInt8, _ body: [UInt8]) -> [UInt8] {
    [0x08, 9] + field(number, body)
  }

  static func ref(callee: [UInt8] = Array("bob".utf8), id: [UInt8] = callID) -> [UInt8] {
    field(1, field(1, callee) + field(2, id))
  }

  private func refusal(_ bytes: [UInt8]) -> FrameError? { DeviceCodec.protobuf.refusal(bytes) }

  private func refusal(json text: String) -> FrameError? {
    DeviceCodec.json.refusal(Array(text.utf8))
  }

  @Test func theBaseIsGood() throws {
    let frame = try DeviceCodec.protobuf.decodeClient(Self.frame(8, Self.ref()))
    let call = CallID(high: 0x0102_0304_0506_0708, low: 0x090a_0b0c_0d0e_0f10)
    #expect(
      frame == ClientFrame(id: 9, command: .call(CallAddress(callee: "bob", call: call), .alerting))
    )
  }

  @Test(arguments: [0, 1, 15, 17, 100]) func callIDsHave16Bytes(count: Int) {
    let error = refusal(Self.frame(8, Self.ref(id: [UInt8](repeating: 1, count: count))))
    #expect(error?.id == 9)
    #expect(error?.code == .invalidField)
    #expect(error?.error.message.contains("call.id") == true)
  }

  @Test(
    arguments: [
      [0xff], [0xc3], [0xc3, 0x28], [0xed, 0xa0, 0x80], [0xf8, 0x88, 0x80, 0x80, 0x80],
      [0xc0, 0xaf],
    ] as [[UInt8]]) func invalidUTF8(text: [UInt8])
  {
    let error = refusal(Self.frame(8, Self.ref(callee: text)))
    #expect(error?.id == 9)
    #expect(error?.code == .invalidField)
    // The same bytes in JSON, whether or not something else in it is escaped.
    let start = #"{"id":9,"unregister":{"device":""#
    let end = text + Array("\"}}".utf8)
    #expect(DeviceCodec.json.refusal(Array(start.utf8) + end)?.code == .invalidField)
    let escaped = DeviceCodec.json.refusal(Array((start + #"\n"#).utf8) + end)
    #expect(escaped?.code == .invalidField)
    #expect(escaped?.id == 9)
  }

  /// protobuf-c hands text over as C strings; nothing may be cut off unseen.
  @Test func textWithNUL() {
    #expect(refusal(Self.frame(8, Self.ref(callee: [0])))?.code == .invalidCallee)
    #expect(
      refusal(Self.frame(8, Self.ref(callee: Array("bob\0eve".utf8))))?.code
        == .invalidCallee)
    let answer = Self.ref() + Self.field(2, Array("v=0\0".utf8))
    #expect(refusal(Self.frame(9, answer))?.code == .invalidField)
    let json = #"{"id":9,"answer":{"call":{"id":"\#(LimitTests.call)"},"description":"v=0\u0000"}}"#
    let error = refusal(json: json)
    #expect(error == FrameError(id: 9, error: error!.error))
    #expect(error?.code == .invalidField)
  }

  /// A name that a node wrote would lose the part behind the NUL, and be another's name.
  @Test func namesWithNULBetweenNodes() throws {
    let command = Command(
      session: SessionRef(edge: 7, number: 9), request: 12, user: UserKey(app: "demo", user: "b?b"),
      device: "phone", callee: UserKey(app: "demo", user: "b?b"),
      body: .call(LimitTests.call, .query))
    let bytes = ClusterCodec.encode(CommandBatch(edge: 7, commands: [command]))
    #expect(try ClusterCodec.commandBatch(bytes).commands == [command])
    let broken = try ClusterCodec.commandBatch(bytes.map { $0 == UInt8(ascii: "?") ? 0 : $0 })
    #expect(broken.commands.isEmpty)
    #expect(broken.unreadable.map(\.reason) == ["The field user is not valid."])
  }

  @Test func unknownCommandsAndNone() {
    #expect(refusal([0x08, 9]) == FrameError(id: 9, error: CallError(.unknownCommand)))
    // Field 200, which a later version may have.
    #expect(refusal([0x08, 9, 0xc2, 0x0c, 0x00])?.code == .unknownCommand)
    #expect(refusal([])?.code == .unknownCommand)
    #expect(refusal(json: #"{"id":9}"#)?.code == .unknownCommand)
    let later = refusal(json: #"{"id":9,"teleport":{}}"#)
    #expect(later == FrameError(id: 9, error: CallError(.unknownCommand)))
  }

  @Test(arguments: [
    #"{"id":9,"detach":{},"unregister":{}}"#, #"{"detach":{},"unregister":{},"id":9}"#,
    // Whatever the second one holds.
    #"{"id":9,"detach":{},"place":{}}"#, #"{"id":9,"detach":{},"register":{"voipToken":7}}"#,
    #"{"id":9,"detach":{},"detach":{}}"#,
  ])
  func twoCommands(text: String) {
    let error = refusal(json: text)
    #expect(error?.id == 9)
    #expect(error?.code == .unknownCommand)
    #expect(error?.error.message == "The frame holds two commands; say each in a frame of its own.")
  }

  @Test func whatFollowsACommandMayBeAnythingElse() throws {
    let text = #"{"id":9,"detach":{},"later":[{"place":1}],"place":null}"#
    let frame = try DeviceCodec.json.decodeClient(Array(text.utf8))
    #expect(frame == ClientFrame(id: 9, command: .detach))
    let broken = refusal(json: #"{"id":9,"detach":{},"place":{"call":}}"#)
    #expect(broken?.code == .malformedFrame)
  }

  @Test func unknownEnums() {
    let scope = Self.ref() + [0x10, 7]
    #expect(refusal(Self.frame(10, scope))?.code == .invalidField)
    let negative = Self.ref() + [0x10] + [UInt8](repeating: 0xff, count: 9) + [1]
    #expect(refusal(Self.frame(10, negative))?.code == .invalidField)
    let json = #"{"id":9,"decline":{"call":{"id":"\#(LimitTests.call)"},"scope":"Here"}}"#
    let error = refusal(json: json)
    #expect(error?.id == 9)
    #expect(error?.code == .invalidField)
  }

  /// The refusal has the number even where the command is cut off or of the wrong wire type.
  @Test func theNumberIsRecovered() {
    let whole = Self.frame(8, Self.ref())
    for count in 3..<whole.count {
      #expect(refusal(Array(whole[..<count]))?.id == 9, "\(count) bytes")
    }
    #expect(refusal([0x08, 9, 0x07])?.id == 9)
    #expect(refusal([0x08])?.id == 0)
    #expect(refusal([0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f])?.id == 0)
    let json = #"{"id":12,"place":{"call":{"id":"not-a-uuid"}}}"#
    #expect(refusal(json: json)?.id == 12)
    #expect(refusal(json: #"{"id":12,"place":5}"#)?.id == 12)
    #expect(refusal(json: #"{"id":12,"place":"#)?.id == 12)
  }

  @Test(arguments: [
    "", " ", "null", "7", "\"text\"", "[]", "{", "{}}", #"{"id":}"#, "\u{feff}{}x",
    #"{"id":1,"detach":{},}"#, "{'id':1}", #"{"id":1 "detach":{}}"#, #"{"id":1,"detach":{}} 7"#,
    #"{"id":1,"detach":"\ud800"}"#,
  ]) func notJSON(text: String) {
    let error = refusal(json: text)
    #expect([.malformedFrame, .unknownCommand, .invalidField].contains(error?.code))
  }

  @Test func missingCall() {
    #expect(refusal(Self.frame(8, []))?.code == .invalidField)
    let json = refusal(json: #"{"id":9,"alerting":{}}"#)
    #expect(json?.error.message == "The field call is missing.")
    #expect(json?.id == 9)
  }

  @Test func absentAndNullFieldsAreEmpty() throws {
    let text =
      #"{"later":[1,{"x":null}],"id":9,"attach":null,"decline":{"call":{"callee":null,"#
      + #""id":"6BA7B810-9DAD-11D1-80B4-00C04FD430C8"},"scope":null,"why":"no"}}"#
    let frame = try DeviceCodec.json.decodeClient(Array(text.utf8))
    #expect(
      frame
        == ClientFrame(
          id: 9, command: .call(CallAddress(call: LimitTests.call), .decline(.everywhere))))
  }

  @Test(arguments: DeviceCodec.allCases) func headersNeedNames(codec: DeviceCodec) {
    for name in ["", "a\nb"] {
      let frame = ClientFrame(
        id: 1, command: LimitTests.place(headers: [CustomHeader(name: name, value: "v")]))
      #expect(codec.refusal(frame)?.code == .invalidField)
    }
  }

  // MARK: What clients read

  @Test func errorsOfALaterVersion() throws {
    let text = #"{"reply":{"id":4,"error":{"code":499,"name":"later","message":"Not today."}}}"#
    let frame = try DeviceCodec.json.decodeServer(Array(text.utf8))
    #expect(frame == .reply(id: 4, .error(CallError(.internalError, "Not today."))))
  }

  /// A client acknowledges it unread. An edge drops it, so that one that knows the kind can deliver it.
  @Test func signalsOfALaterKind() throws {
    let delivery = Delivery(
      call: LimitTests.call, callee: "bob", version: 9, at: Timestamp(microseconds: 0),
      event: .signal(Signal(index: 2, kind: .unknown, body: "x")))
    let text =
      #"{"delivery":{"call":{"callee":"bob","id":"\#(LimitTests.call)"},"version":9,"#
      + #""signal":{"index":2,"kind":"later","body":"x"}}}"#
    #expect(try DeviceCodec.json.decodeServer(Array(text.utf8)) == .delivery(delivery))
    let bytes = DeviceCodec.protobuf.encode(.delivery(delivery))
    #expect(try DeviceCodec.protobuf.decodeServer(bytes) == .delivery(delivery))

    let item = EdgeItem(session: 1, body: .delivery(delivery))
    var batch = ClusterCodec.encode(EdgeBatch(items: [item]))
    // The number of a kind that is in no schema: 255 as a varint, and then 77.
    let kind = try #require(batch.indices.dropLast().last { batch[$0...].starts(with: [0xff, 1]) })
    batch.replaceSubrange(kind...kind + 1, with: [0xcd, 0])
    #expect(try ClusterCodec.edgeBatch(batch).unreadable == 1)
  }

  @Test(arguments: DeviceCodec.allCases) func nobodySendsAnUnknownKind(codec: DeviceCodec) {
    let command = ClientCommand.call(
      CallAddress(call: LimitTests.call), .signal(.unknown, body: "x"))
    #expect(codec.refusal(ClientFrame(id: 1, command: command))?.code == .unknownCommand)
  }
}
