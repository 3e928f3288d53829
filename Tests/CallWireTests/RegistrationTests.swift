import CallCore
import CallWire
import Testing

/// The values that a device may register, by both encodings and over HTTP, and the form in which they are kept.
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

  /// The registration that an edge reads: by either encoding, and over HTTP, the same.
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
    let request = RegistrationRequest(voipToken: voip ? token : nil, alertToken: voip ? nil : token)
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
      let kept = Self.apns(topic: "org.example.app", environment: "")
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
    for given in ["", "production", "sandbox"] {
      #expect(try voip(Self.apns(environment: given))?.environment == given)
    }
    for bad in ["debug", "development", "Production", "staging", " "] {
      #expect(refusal("voipToken", Self.apns(environment: bad)).contains("environment"))
    }
  }

  @Test func theTopicOfVoIPPushesEndsInVoIP() throws {
    #expect(try voip(Self.apns(topic: "org.example.app"))?.topic == "org.example.app.voip")
    #expect(try voip(Self.apns(topic: "org.example.app.voip"))?.topic == "org.example.app.voip")
    #expect(try alert(Self.apns(topic: "org.example.app"))?.topic == "org.example.app")
    #expect(refusal("alertToken", Self.apns(topic: "org.example.app.voip")).contains("voipToken"))
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
}
