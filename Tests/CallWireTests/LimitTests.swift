import CallCore
import CallWire
import Testing

/// Each limit, at its boundary and one over it, in both encodings.
@Suite struct LimitTests {
  static let call = CallID(high: 0x6ba7_b810_9dad_11d1, low: 0x80b4_00c0_4fd4_30c8)
  static let address = CallAddress(callee: "bob", call: call)

  /// A case of the table: what stands at the limit, what over it, and the refusal.
  struct Limit: Sendable, CustomTestStringConvertible {
    var name: String
    var code: CallError.Code
    var over: Int
    var command: @Sendable (Int) -> ClientCommand
    var testDescription: String { name }

    init(
      _ name: String, _ code: CallError.Code, over: Int,
      _ command: @escaping @Sendable (Int) -> ClientCommand
    ) {
      self.name = name
      self.code = code
      self.over = over
      self.command = command
    }
  }

  static func text(_ count: Int) -> String { String(repeating: "x", count: count) }

  static func place(description: String = "", headers: [CustomHeader] = []) -> ClientCommand {
    .place(address, PlaceRequest(call: call, description: description, headers: headers))
  }

  static let limits: [Limit] = [
    Limit("callee", .invalidCallee, over: 129) {
      .call(CallAddress(callee: text($0), call: call), .query)
    },
    Limit("callee of an ack", .invalidCallee, over: 129) {
      .ack([AckItem(call: CallAddress(callee: text($0), call: call), version: 1)])
    },
    Limit("device of attach", .invalidDevice, over: 65) {
      .attach(AttachRequest(device: text($0)))
    },
    Limit("device of unregister", .invalidDevice, over: 65) { .unregister(DeviceID(text($0))) },
    Limit("bearer token", .notAccepted, over: 4097) { .attach(AttachRequest(token: text($0))) },
    Limit("push token", .invalidPushToken, over: 1025) {
      .register(
        RegistrationRequest(
          alertToken: PushToken(provider: .fcm, environment: "", topic: "", token: text($0))))
    },
    Limit("push topic", .invalidPushToken, over: 256) {
      .register(
        RegistrationRequest(
          alertToken: PushToken(
            provider: .apns, environment: "sandbox", topic: text($0),
            token: String(repeating: "ab", count: 32))))
    },
    Limit("description of place", .descriptionTooLarge, over: 65_537) {
      place(description: text($0))
    },
    Limit("description of answer", .descriptionTooLarge, over: 65_537) {
      .call(address, .answer(description: text($0)))
    },
    Limit("candidate", .descriptionTooLarge, over: 16_385) {
      .call(address, .signal(.candidate, body: text($0)))
    },
    Limit("later description", .descriptionTooLarge, over: 65_537) {
      .call(address, .signal(.description, body: text($0)))
    },
    Limit("information", .informationTooLarge, over: 4097) {
      .call(address, .signal(.information, body: text($0)))
    },
    Limit("headers", .headersTooLarge, over: 33) {
      place(headers: (0..<$0).map { CustomHeader(name: "n\($0)", value: "") })
    },
    Limit("bytes of headers", .headersTooLarge, over: 4097) {
      place(headers: [CustomHeader(name: "name", value: text($0 - 4))])
    },
    Limit("data for pushes", .pushDataTooLarge, over: 1025) {
      .place(address, PlaceRequest(call: call, pushData: text($0)))
    },
    Limit("acks", .invalidField, over: 257) {
      .ack((0..<$0).map { AckItem(call: address, version: UInt64($0)) })
    },
  ]

  @Test(arguments: limits, DeviceCodec.allCases) func boundary(limit: Limit, codec: DeviceCodec)
    throws
  {
    let allowed = ClientFrame(id: 5, command: limit.command(limit.over - 1))
    #expect(try codec.read(allowed) == allowed)
    let error = codec.refusal(ClientFrame(id: 5, command: limit.command(limit.over)))
    #expect(error?.code == limit.code)
    #expect(error?.id == 5)
  }

  @Test(arguments: DeviceCodec.allCases) func limitsAreTheAppsOwn(codec: DeviceCodec) throws {
    var limits = CallLimits()
    limits.descriptionBytes = 10
    limits.headersCount = 1
    let long = codec.encode(ClientFrame(id: 1, command: Self.place(description: Self.text(11))))
    let error = codec.refusal(long, limits: limits)
    #expect(error?.code == .descriptionTooLarge)
    #expect(error?.error.message.contains("10") == true)
  }

  @Test(arguments: DeviceCodec.allCases) func frameSize(codec: DeviceCodec) {
    let bytes = [UInt8](repeating: 0x20, count: codec.frameBytesMaximum())
    #expect(codec.refusal(bytes)?.code == .malformedFrame)
    #expect(codec.refusal(bytes + [0x20])?.code == .frameTooLarge)
  }

  /// Also where an author's library escapes whatever can be escaped, a byte of text in six.
  @Test func whatIsAtTheLimitsFitsIntoAFrameHoweverItIsEscaped() throws {
    func escaped(_ count: Int) -> String { String(repeating: #"\u0061"#, count: count) }
    let json = #"""
      {"\u0069d":7,"place":{"call":{"callee":"\#(escaped(128))","id":"\#(Self.call)"},
      "description":"\#(escaped(65_536))",
      "headers":[{"name":"\#(escaped(96))","value":"\#(escaped(4000))"}],"video":true}}
      """#
    let frame = try DeviceCodec.json.decodeClient(Array(json.utf8))
    guard case .place(_, let request) = frame.command else {
      Issue.record("\(frame)")
      return
    }
    #expect(request.setup.description.utf8.count == 65_536)
    // As control characters, which nothing but escapes can hold.
    let worst = ClientFrame(
      id: 7, command: Self.place(description: String(repeating: "\u{1}", count: 65_536)))
    #expect(try DeviceCodec.json.read(worst) == worst)
  }

  @Test(arguments: DeviceCodec.allCases) func aFrameThatIsTooLargeIsRefusedUnderItsID(
    codec: DeviceCodec
  ) {
    let large = ClientFrame(id: 77, command: Self.place(description: Self.text(800_000)))
    let bytes = codec.encode(large)
    let error = codec.refusal(bytes)
    #expect(error?.id == 77 && error?.code == .frameTooLarge)
    // Its beginning is enough.
    for count in [40, DeviceCodec.idSearchedBytes, 10_000] {
      #expect(bytes.prefix(count).withUnsafeBytes { codec.tooLarge($0).id } == 77)
    }
  }

  @Test func anIDBehindALargeFieldIsNotFound() {
    let text = #"{"place":{"description":""# + Self.text(800_000) + #""},"id":77}"#
    let error = DeviceCodec.json.refusal(Array(text.utf8))
    #expect(error?.id == 0 && error?.code == .frameTooLarge)
    #expect(error?.error.message == "A frame is at most 786432 bytes.")
  }

  @Test(arguments: DeviceCodec.allCases) func idsOfFrames(codec: DeviceCodec) throws {
    let most = ClientFrame(id: 1 << 53 - 1, command: .detach)
    #expect(try codec.read(most) == most)
    _ = codec.refusal(ClientFrame(id: 1 << 53, command: .detach))
    #expect(codec.refusal(ClientFrame(id: 0, command: .detach))?.code == .invalidField)
    // Only an ack needs no number.
    let ack = ClientFrame(id: 0, command: .ack([AckItem(call: Self.address, version: 3)]))
    #expect(try codec.read(ack) == ack)
    _ = codec.refusal(ClientFrame(id: 0, command: .ack([])))
  }

  @Test(
    "an empty callee is the sender's own user; the largest timeout is the core's to refuse",
    arguments: DeviceCodec.allCases)
  func leastAndMost(codec: DeviceCodec) throws {
    for command in [
      ClientCommand.call(CallAddress(call: Self.call), .answer(description: "")),
      .place(Self.address, PlaceRequest(call: Self.call, ringTimeoutSeconds: .max)),
    ] {
      let frame = ClientFrame(id: 1, command: command)
      #expect(try codec.read(frame) == frame)
    }
  }

  /// Which ids are taken is `IdentifierRuleTests`'.
  @Test func idsThatAreNotTaken() {
    for text in ["a\u{0}", "a\nb", "x\u{2029}"] {
      #expect(throws: CallError.self) { try FieldRules.checkDeviceID(text) }
      let frame = ClientFrame(
        id: 4, command: .call(CallAddress(callee: text, call: Self.call), .query))
      #expect(DeviceCodec.json.refusal(frame)?.code == .invalidCallee)
    }
  }
}
