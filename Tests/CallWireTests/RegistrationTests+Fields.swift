import CallCore
import CallWire
import Testing

/// All fields but tokens.
extension RegistrationTests {
  // MARK: The rest

  @Test func dialects() throws {
    for dialect in PushDialect.allCases.map(\.rawValue) + [""] {
      #expect(try read(RegistrationRequest(dialect: dialect)).dialect == dialect)
    }
    for bad in ["Twilio", "sip", " ", String(repeating: "x", count: 1000)] {
      let error = #expect(throws: CallError.self) { try read(RegistrationRequest(dialect: bad)) }
      #expect(error?.code == .unknownDialect)
      for known in PushDialect.allCases {
        #expect(error?.message.contains(known.rawValue) == true)
      }
    }
  }

  @Test func capabilitiesSetOutright() throws {
    #expect(try read(RegistrationRequest()).capabilities == nil)
    for bits in UInt32(0)..<32 {
      let capabilities = PushCapabilities(rawValue: bits)
      #expect(
        try read(RegistrationRequest(capabilities: capabilities)).capabilities == capabilities)
    }
    #expect(PushCapabilities.allNames.count == 5)
    for name in PushCapabilities.allNames {
      #expect(CallError.Code.unknownCapability.sentence.contains(name))
      #expect(PushCapabilities(name: name)?.names == [name])
    }
  }

  @Test func capabilitiesInJSON() throws {
    func given(_ members: String) throws -> PushCapabilities? {
      let body = Array("{\(members)}".utf8)
      return try HTTPBodies.register(body).request.capabilities
    }
    #expect(try given(#""capabilities":["missed","missedNotice"]"#) == [.missed, .missedNotice])
    #expect(try given(#""capabilities":["missed","missed"]"#) == [.missed])
    // An empty list is an absent one, unless it is said to be given.
    #expect(try given(#""capabilities":[]"#) == nil)
    #expect(try given(#""capabilities":null,"capabilitiesGiven":false"#) == nil)
    #expect(try given(#""capabilitiesGiven":true"#) == [])
    #expect(try given(#""capabilitiesGiven":true,"capabilities":["cancel"]"#) == [.cancel])
  }

  @Test func capabilitiesThatNobodyKnowsAreRefused() throws {
    let json = Array(#"{"id":1,"register":{"capabilities":["missed","telepathy"]}}"#.utf8)
    // Field 4 of the frame, field 8 of the command.
    let name = Array("telepathy".utf8)
    let register = [0x42, UInt8(name.count)] + name
    let protobuf = [0x08, 1, 0x22, UInt8(register.count)] + register
    for (codec, bytes) in [(DeviceCodec.json, json), (.protobuf, protobuf)] {
      let error = codec.refusal(bytes)
      #expect(error?.id == 1)
      #expect(error?.error == CallError(.unknownCapability))
    }
  }

  /// A node of another version may know more; what it keeps is read all the same.
  @Test func capabilitiesOfANewerNodeAreSkipped() throws {
    let capabilities: PushCapabilities = [.missed, .cancel]
    let registration = Registration(
      user: UserKey(app: "demo", user: "bob"), device: "d",
      request: RegistrationRequest(capabilities: capabilities),
      registeredAt: Timestamp(microseconds: 1), seenAt: Timestamp(microseconds: 2))
    var bytes = ClusterCodec.encode(registration)
    let at = try #require(bytes.firstRange(of: Array("cancel".utf8)))
    bytes.replaceSubrange(at, with: Array("levity".utf8))
    #expect(try ClusterCodec.registration(bytes).request.capabilities == [.missed])
  }

  @Test func fingerprintsOfDevicesAreNotRead() throws {
    var token = Self.apns()
    token.fingerprint = "0123456789abcdef0123456789abcdef"
    #expect(try voip(token)?.fingerprint == "")
  }

  /// In JSON; protobuf-c, by which the tests write, would end the text there.
  @Test(arguments: [
    #""alertToken":{"provider":"fcm","token":"a\u0000b"}"#,
    #""alertToken":{"provider":"fcm","token":"a","topic":"p\u0000"}"#,
    #""alertToken":{"provider":"apns","token":"\#(hex)\u0000","topic":"a"}"#,
    #""alertToken":{"provider":"apns","token":"\#(hex)","topic":"a\u0000"}"#,
    #""alertToken":{"provider":"apns","token":"\#(hex)","topic":"a","environment":"\u0000"}"#,
  ])
  func textWithNUL(members: String) {
    let error = #expect(throws: CallError.self) {
      try HTTPBodies.register(Array("{\(members)}".utf8))
    }
    #expect(error?.code == .invalidPushToken)
  }

  @Test func emptyTokensAreNone() throws {
    let empty = PushToken(provider: .none, environment: "", topic: "", token: "")
    #expect(try read(RegistrationRequest(voipToken: empty, alertToken: empty)).voipToken == nil)
    let nobody = PushToken(provider: .none, environment: "", topic: "", token: Self.hex)
    #expect(refusal("voipToken", nobody).contains("provider"))
  }

  @Test func namesAreCutAndCleaned() throws {
    let longest = String(repeating: "x", count: 128)
    let request = RegistrationRequest(deviceName: longest, sdkName: longest, sdkVersion: longest)
    #expect(try read(request) == request)
    let long = RegistrationRequest(
      deviceName: longest + "x", sdkName: longest + "x", sdkVersion: longest + "x")
    #expect(try read(long) == request)
    #expect(try read(RegistrationRequest(sdkVersion: "1\n")).sdkVersion == "1")
  }

  @Test(
    "a label never costs a phone its calls: it is cut behind a whole character, and cleaned",
    arguments: [
      ("Bob's phone", "Bob's phone"), ("", ""),
      (String(repeating: "ท", count: 43), String(repeating: "ท", count: 42)),
      (String(repeating: "é", count: 65), String(repeating: "é", count: 64)),
      // A family is one character of 25 bytes.
      (String(repeating: "👨‍👩‍👧‍👦", count: 6), String(repeating: "👨‍👩‍👧‍👦", count: 5)),
      ("Bob's\nphone", "Bob'sphone"), ("a\r\n\u{1}\u{7f}\u{2028}b\u{85}", "ab"), ("\u{1}", ""),
    ])
  func labels(text: String, label: String) throws {
    #expect(try read(RegistrationRequest(deviceName: text)).deviceName == label)
    let frame = ClientFrame(id: 1, command: .attach(AttachRequest(deviceName: text, client: text)))
    for codec in DeviceCodec.allCases {
      guard case .attach(let request) = try codec.decodeClient(codec.encode(frame)).command else {
        Issue.record("no attach")
        continue
      }
      #expect(request.deviceName == label && request.client == label)
    }
  }

  @Test(arguments: [
    ("bob", true), (String(repeating: "b", count: 40), true),
    (String(repeating: "b", count: 41), false), ("", false), ("böb", false), ("日", false),
  ])
  func usersOfSinch(user: String, good: Bool) {
    let sinch = RegistrationRequest(dialect: "sinch")
    if good {
      #expect(throws: Never.self) { try RegistrationRules.check(sinch, of: user) }
    } else {
      let error = #expect(throws: CallError.self) {
        try RegistrationRules.check(sinch, of: user)
      }
      #expect(error == CallError(.invalidUserForDialect))
    }
    for other in PushDialect.allCases where other != .sinch {
      #expect(throws: Never.self) {
        try RegistrationRules.check(RegistrationRequest(dialect: other.rawValue), of: user)
      }
    }
  }

  @Test func nothingPrintsAToken() throws {
    var token = Self.apns()
    token.fingerprint = "f00d"
    let request = RegistrationRequest(voipToken: token, alertToken: Self.webPush())
    let frame = ClientFrame(id: 1, command: .register(request))
    let subscription = try #require(WebPushSubscription(json: Self.webPush().token))
    var dumped = ""
    dump(frame, to: &dumped)
    dump(subscription, to: &dumped)
    for text in [
      "\(token)", String(reflecting: token), "\(request)", "\(frame)", String(reflecting: frame),
      "\(subscription)", String(reflecting: subscription), dumped,
    ] {
      #expect(!text.contains(Self.hex.prefix(8)))
      #expect(!text.contains(Base64URL.text(Self.secret).prefix(8)))
      #expect(!text.contains("/s/1"))
    }
    #expect("\(token)".contains("f00d"))
  }
}
