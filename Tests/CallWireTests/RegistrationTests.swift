import CallCore
import CallWire
import Testing

/// What a device may register, by both encodings and over HTTP, and in which form it is kept.
@Suite struct RegistrationTests {
  static let hex = String(repeating: "0123456789abcdef", count: 4)
  static let point = [UInt8(0x04)] + [UInt8](1...64)
  static let secret = [UInt8](101...116)

  static func apns(
    _ token: String = hex, topic: String = "org.example.app", environment: String = ""
  ) -> PushToken {
    PushToken(provider: .apns, environment: environment, topic: topic, token: token)
  }

  static func fcm(
    _ token: String = "fcm:token", topic: String = "", environment: String = ""
  ) -> PushToken {
    PushToken(provider: .fcm, environment: environment, topic: topic, token: token)
  }

  static func webPush(
    endpoint: String = "https://push.example/s/1", p256dh: String = Base64URL.text(point),
    auth: String = Base64URL.text(secret), extra: String = ""
  ) -> PushToken {
    PushToken(
      provider: .webPush, environment: "", topic: "",
      token:
        #"{"endpoint":"\#(endpoint)",\#(extra)"keys":{"p256dh":"\#(p256dh)","auth":"\#(auth)"}}"#)
  }

  /// What an edge reads of it: by either encoding, and over HTTP, the same.
  func read(_ request: RegistrationRequest) throws(CallError) -> RegistrationRequest {
    var results: [Result<RegistrationRequest, CallError>] = []
    for codec in DeviceCodec.allCases {
      let frame = codec.encode(ClientFrame(id: 1, command: .register(request)))
      do throws(FrameError) {
        guard case .register(let kept) = try codec.decodeClient(frame).command else { continue }
        results.append(.success(kept))
      } catch {
        #expect(error.id == 1)
        results.append(.failure(error.error))
      }
    }
    do throws(CallError) {
      let body = HTTPBodies.encode(HTTPBodies.Register(device: "d", request: request))
      results.append(.success(try HTTPBodies.register(body).request))
    } catch {
      results.append(.failure(error))
    }
    #expect(results.count == 3)
    #expect(Set(results).count == 1, "\(results)")
    return try results[0].get()
  }

  func voip(_ token: PushToken) throws(CallError) -> PushToken? {
    try read(RegistrationRequest(voipToken: token)).voipToken
  }

  func alert(_ token: PushToken) throws(CallError) -> PushToken? {
    try read(RegistrationRequest(alertToken: token)).alertToken
  }

  /// Refused with a sentence that names the field, and holds nothing of the token.
  func refusal(
    _ name: String, _ token: PushToken, _ at: SourceLocation = #_sourceLocation
  ) -> String {
    let voip = name == "voipToken"
    let request = RegistrationRequest(
      voipToken: voip ? token : nil, alertToken: voip ? nil : token)
    let error = #expect(throws: CallError.self, sourceLocation: at) { try read(request) }
    #expect(error?.code == .invalidPushToken, sourceLocation: at)
    let message = error?.message ?? ""
    #expect(message.hasPrefix(name), sourceLocation: at)
    for length in stride(from: 8, through: token.token.count, by: 8) {
      let part = token.token.prefix(length).suffix(8)
      if part.contains("https://") || part.contains(" ") { continue }
      #expect(!message.contains(part), sourceLocation: at)
    }
    return message
  }

  // MARK: APNs

  @Test func apnsTokensAreKeptInLowerCase() throws {
    let upper = Self.hex.uppercased()
    let groups = stride(from: 0, to: 64, by: 8).map { start in
      String(Self.hex.dropFirst(start).prefix(8))
    }
    for text in [
      Self.hex, upper, " \(Self.hex)\n", "\t\(upper)\r\n", "<\(groups.joined(separator: " "))>",
      " <\(groups.joined(separator: " ").uppercased())> ", groups.joined(separator: " "),
    ] {
      let kept = Self.apns(topic: "org.example.app", environment: "production")
      #expect(try alert(Self.apns(text)) == kept)
    }
  }

  @Test(arguments: [
    "", " ", "<>", "c0ffee", String(hex.dropLast(2)), String(hex.dropLast()), hex + "0",
    String(hex.dropLast()) + "g", "<" + hex, hex + ">", "<<" + hex + ">>",
    "0x" + hex, hex + "-" + hex, String(repeating: "é", count: 64),
    String(repeating: "ab", count: 513),
  ])
  func whatIsNoAPNsToken(text: String) {
    _ = refusal("alertToken", Self.apns(text))
    _ = refusal("voipToken", Self.apns(text))
  }

  @Test(arguments: [64, 66, 160, 200, 1022, 1024])
  func apnsTokensOfAllLengths(digits: Int) throws {
    let text = String(repeating: "5a", count: digits / 2)
    #expect(try alert(Self.apns(text))?.token == text)
  }

  @Test func environmentsOfAPNs() throws {
    for (given, kept) in [
      ("", "production"), ("production", "production"), ("sandbox", "sandbox"),
    ] {
      #expect(try voip(Self.apns(environment: given))?.environment == kept)
    }
    for bad in ["debug", "development", "Production", "staging", " "] {
      #expect(refusal("voipToken", Self.apns(environment: bad)).contains("environment"))
    }
  }

  @Test func theTopicOfVoIPPushesEndsInVoIP() throws {
    #expect(try voip(Self.apns(topic: "org.example.app"))?.topic == "org.example.app.voip")
    #expect(try voip(Self.apns(topic: "org.example.app.voip"))?.topic == "org.example.app.voip")
    #expect(try alert(Self.apns(topic: "org.example.app"))?.topic == "org.example.app")
    #expect(
      refusal("alertToken", Self.apns(topic: "org.example.app.voip")).contains("voipToken"))
  }

  /// It goes into a header of the provider's request.
  @Test(arguments: ["", " ", "a b", "a\r\nb: c", "a/b", "ä", "a:b", "a,b", "\"a\""])
  func topicsOfOtherText(topic: String) {
    #expect(refusal("voipToken", Self.apns(topic: topic)).contains("topic"))
  }

  @Test func topicsAtTheirLimit() throws {
    let longest = String(repeating: "a", count: 255)
    #expect(try alert(Self.apns(topic: longest))?.topic == longest)
    #expect(refusal("alertToken", Self.apns(topic: longest + "a")).contains("topic"))
    let room = String(repeating: "a", count: 250)
    #expect(try voip(Self.apns(topic: room))?.topic == room + ".voip")
    #expect(refusal("voipToken", Self.apns(topic: room + "a")).contains("topic"))
  }

  // MARK: FCM

  @Test func fcmTokens() throws {
    let token = "dGhlIHRva2Vu:APA91b_-x"
    for text in [token, " \(token)", "\(token)\n", "\r\n\t\(token) "] {
      #expect(
        try alert(Self.fcm(text, topic: "my-project")) == Self.fcm(token, topic: "my-project"))
    }
    for bad in ["", " ", "\n", "a\nb", "a\u{7f}", "\u{2028}", "a\u{85}b"] {
      #expect(refusal("alertToken", Self.fcm(bad)).contains("token"))
    }
    let longest = String(repeating: "x", count: 1024)
    #expect(try alert(Self.fcm(longest))?.token == longest)
    _ = refusal("alertToken", Self.fcm(longest + "x"))
  }

  /// It becomes part of a path.
  @Test func projectsOfFCM() throws {
    for good in ["", "my-project-1", "example.com:my-project"] {
      #expect(try alert(Self.fcm(topic: good))?.topic == good)
    }
    for bad in [
      "a/b", "../x", "a b", "a?b", "a%2fb", "ä", "a\n", String(repeating: "a", count: 256),
    ] {
      #expect(refusal("alertToken", Self.fcm(topic: bad)).contains("topic"))
    }
  }

  @Test func onlyAPNsHasVoIPTokensAndASandbox() throws {
    #expect(refusal("voipToken", Self.fcm()).contains("alertToken"))
    #expect(refusal("voipToken", Self.webPush()).contains("alertToken"))
    #expect(try alert(Self.fcm(environment: "production"))?.environment == "")
    #expect(refusal("alertToken", Self.fcm(environment: "sandbox")).contains("environment"))
    var token = Self.webPush()
    token.environment = "sandbox"
    #expect(refusal("alertToken", token).contains("environment"))
  }

  // MARK: Web Push

  static let keptKeys =
    #""keys":{"auth":"\#(Base64URL.text(secret))","p256dh":"\#(Base64URL.text(point))"}"#

  @Test func subscriptionsAreWrittenAnew() throws {
    let kept = PushToken(
      provider: .webPush, environment: "", topic: "https://push.example",
      token: #"{"endpoint":"https://push.example/s/1",\#(Self.keptKeys)}"#)
    let padded = Base64URL.text(Self.point).replacing("-", with: "+").replacing("_", with: "/")
    for given in [
      Self.webPush(), Self.webPush(extra: #""expirationTime":null,"#),
      Self.webPush(extra: #" "options" : {"userVisibleOnly":true} , "#),
      Self.webPush(endpoint: #"https:\/\/push.example\/s\/1"#), Self.webPush(p256dh: padded + "="),
      Self.webPush(auth: Base64URL.text(Self.secret) + "=="), kept,
    ] {
      #expect(try alert(given) == kept)
    }
  }

  @Test(arguments: [
    ("https://push.example/x", "https://push.example"),
    ("HTTPS://Push.Example/X?y=Z", "https://push.example"),
    ("https://push.example:443/x", "https://push.example"),
    ("https://push.example:8443/x", "https://push.example:8443"),
    ("https://push.example", "https://push.example"),
    ("https://push.example?x", "https://push.example"),
    ("https://192.0.2.1/x", "https://192.0.2.1"),
    ("https://[2001:db8::1]/x", "https://[2001:db8::1]"),
    ("https://[::1]:9/x", "https://[::1]:9"),
  ])
  func originsOfEndpoints(endpoint: String, origin: String) throws {
    let token = try alert(Self.webPush(endpoint: endpoint))
    #expect(token?.topic == origin)
    #expect(token?.token == #"{"endpoint":"\#(endpoint)",\#(Self.keptKeys)}"#)
  }

  @Test(arguments: [
    "", "push.example/x", "http://push.example/x", "https://", "https:///x", "https://:443/x",
    "https://ann@push.example/x", "https://ann:secret@push.example/x", "https://push.example:0/x",
    "https://push.example:65536/x", "https://push.example:/x", "https://push.example:+1/x",
    "https://push.example/a b", "https://push.example/x#y", "https://push.example/\u{e4}",
    "https://push example/x", "https://push.example\\\\@x", "https://[::1/x", "https://a]/x",
    "https://[]/x", "https://push.example/\\n", "https://%70ush.example/x", "ftp://push.example",
    "https://push.example/\\u0000", "https://" + String(repeating: "a", count: 254) + "/x",
  ])
  func whatIsNoEndpoint(endpoint: String) {
    let message = refusal("alertToken", Self.webPush(endpoint: endpoint))
    #expect(message.contains("endpoint"))
  }

  @Test func keysOfSubscriptions() {
    for (p256dh, auth) in [
      ("", Base64URL.text(Self.secret)), (Base64URL.text(Self.point), ""),
      (Base64URL.text(Self.point.dropLast()), Base64URL.text(Self.secret)),
      (Base64URL.text(Self.point + [0]), Base64URL.text(Self.secret)),
      (Base64URL.text([0x02] + Self.point.dropFirst()), Base64URL.text(Self.secret)),
      (Base64URL.text(Self.point), Base64URL.text(Self.secret.dropLast())),
      (Base64URL.text(Self.point), Base64URL.text(Self.secret + [0])),
      ("!" + Base64URL.text(Self.point), Base64URL.text(Self.secret)),
    ] {
      _ = refusal("alertToken", Self.webPush(p256dh: p256dh, auth: auth))
    }
    for text in [
      "", "{}", "[]", "x", #"{"endpoint":7}"#, #"{"keys":[]}"#, "https://push.example/x",
    ] {
      var token = Self.webPush()
      token.token = text
      _ = refusal("alertToken", token)
    }
  }

  @Test func subscriptionsAtTheirLimit() throws {
    let bare = Self.webPush(endpoint: "https://push.example/").token.utf8.count
    let fits = Self.webPush(
      endpoint: "https://push.example/" + String(repeating: "x", count: 1024 - bare))
    #expect(fits.token.utf8.count == 1024)
    #expect(try alert(fits)?.token.utf8.count == 1024)
    let tooLong = Self.webPush(
      endpoint: "https://push.example/" + String(repeating: "x", count: 1025 - bare))
    #expect(refusal("alertToken", tooLong).contains("1024"))
  }

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
      let error = #expect(throws: FrameError.self) { try codec.decodeClient(bytes) }
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

  @Test func namesAreLimited() throws {
    let longest = String(repeating: "x", count: 128)
    let request = RegistrationRequest(
      deviceName: longest, sdkName: longest, sdkVersion: longest)
    #expect(try read(request) == request)
    for bad in [
      RegistrationRequest(deviceName: longest + "x"), RegistrationRequest(sdkName: longest + "x"),
      RegistrationRequest(sdkVersion: longest + "x"), RegistrationRequest(sdkVersion: "1\n"),
    ] {
      let error = #expect(throws: CallError.self) { try read(bad) }
      #expect(error?.code == .invalidField)
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

@Suite struct Base64URLTests {
  @Test func knownTexts() {
    for (bytes, text) in [
      ([], ""), ([0x66], "Zg"), ([0x66, 0x6f], "Zm8"), ([0x66, 0x6f, 0x6f], "Zm9v"),
      ([0xfb, 0xff], "-_8"), ([0xff, 0xff, 0xff, 0xfe], "_____g"),
    ] as [([UInt8], String)] {
      #expect(Base64URL.text(bytes) == text)
      #expect(Base64URL.bytes(text) == bytes)
    }
  }

  @Test func allLengthsComeBack() {
    var generator = Generator(seed: 5)
    for count in 0..<300 {
      let bytes = (0..<count).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
      let text = Base64URL.text(bytes)
      #expect(Base64URL.bytes(text) == bytes)
      let padded = text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
      #expect(Base64URL.bytes(padded) == bytes)
      let plain = text.replacing("-", with: "+").replacing("_", with: "/")
      #expect(Base64URL.bytes(plain) == bytes)
    }
  }

  @Test(arguments: [
    "A", "=", "==", "Zg=", "Zg===", "Z===", "Zm8==", "Zh", "Zm9", " Zg", "Zg ", "Zg\n", "Z g",
    "Zé", "Zg.", "AAAAA", "=Zg",
  ])
  func otherTextsAreRefused(text: String) {
    #expect(Base64URL.bytes(text) == nil)
  }
}
