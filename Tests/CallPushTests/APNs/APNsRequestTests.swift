import CallCore
import CallPush
import Crypto
import NIOCore
import NIOHPACK
import Testing

@Suite("APNs: requests")
struct APNsRequestTests {
  static let now = Timestamp(microseconds: 1_700_000_000_900_000)
  static let id = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
  static let token = String(repeating: "0a", count: 32)

  static func message(
    kind: PushMessage.Kind = .voip, id: String = id, token: String = token,
    topic: String = "org.example.app", payload: Int = 20,
    deadline: Timestamp = now + .seconds(30), collapse: String = ""
  ) -> PushMessage {
    PushMessage(
      id: id,
      token: PushToken(
        provider: .apns, environment: "production", topic: topic, token: token),
      purpose: .ring, payload: Array(repeating: UInt8(ascii: "x"), count: payload), kind: kind,
      deadline: deadline, collapseKey: collapse)
  }

  private func request(_ message: PushMessage, keep: Span = .seconds(5)) throws -> APNsRequest {
    try APNsRequest(message, now: Self.now, voipKeep: keep)
  }

  @Test(
    "a VoIP push, from either form of the topic",
    arguments: ["org.example.app", "org.example.app.voip"])
  func voip(topic: String) throws {
    let request = try request(Self.message(topic: topic, collapse: "call"))
    #expect(request.path == "/3/device/" + Self.token)
    #expect(request.topic == "org.example.app.voip")
    #expect(request.pushType == "voip")
    #expect(request.priority == "10")
    #expect(request.expiration == 1_700_000_005)
    #expect(request.collapseID == "")
    #expect(request.id == Self.id)
  }

  @Test("a VoIP push is kept no longer than its deadline, or not at all")
  func voipExpiration() throws {
    let short = Self.message(deadline: Self.now + .seconds(2))
    #expect(try request(short).expiration == 1_700_000_002)
    #expect(try request(Self.message(), keep: .seconds(0)).expiration == 0)
  }

  @Test("an alert and a background push")
  func others() throws {
    let alert = try request(
      Self.message(kind: .alert, topic: "org.example.app.voip", collapse: "missed"))
    #expect(alert.topic == "org.example.app")
    #expect(alert.pushType == "alert")
    #expect(alert.priority == "10")
    #expect(alert.expiration == 1_700_000_030)
    #expect(alert.collapseID == "missed")
    let background = try request(Self.message(kind: .background))
    #expect(background.pushType == "background")
    #expect(background.priority == "5")
    #expect(background.topic == "org.example.app")
  }

  @Test("upper case of ids and tokens becomes lower")
  func lowerCase() throws {
    let request = try request(
      Self.message(id: Self.id.uppercased(), token: Self.token.uppercased()))
    #expect(request.id == Self.id)
    #expect(request.path == "/3/device/" + Self.token)
  }

  @Test("sizes at their boundaries")
  func sizes() throws {
    #expect(try request(Self.message(payload: 5120)).payload.count == 5120)
    #expect(throws: APNsRequest.Refusal.payloadTooLarge) {
      try request(Self.message(payload: 5121))
    }
    for kind in [PushMessage.Kind.alert, .background] {
      #expect(try request(Self.message(kind: kind, payload: 4096)).payload.count == 4096)
      #expect(throws: APNsRequest.Refusal.payloadTooLarge) {
        try request(Self.message(kind: kind, payload: 4097))
      }
    }
    #expect(throws: APNsRequest.Refusal.payloadEmpty) { try request(Self.message(payload: 0)) }
    let collapse = String(repeating: "c", count: 64)
    #expect(try request(Self.message(kind: .alert, collapse: collapse)).collapseID == collapse)
    #expect(throws: APNsRequest.Refusal.badCollapseID) {
      try request(Self.message(kind: .alert, collapse: collapse + "c"))
    }
  }

  @Test(
    "a token that could not stand in a path",
    arguments: ["", "0", "0a0", "zz", "../..", "0a?b", "0a\n0", String(repeating: "0", count: 514)])
  func badTokens(_ token: String) {
    #expect(throws: APNsRequest.Refusal.badToken) { try request(Self.message(token: token)) }
  }

  @Test(
    "an id that is no UUID",
    arguments: [
      "", "call", "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "{0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f}",
      "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1fg", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f\n",
    ])
  func badIDs(_ id: String) {
    #expect(throws: APNsRequest.Refusal.badMessageID) { try request(Self.message(id: id)) }
  }

  @Test("headers and what HPACK may remember of them")
  func indexing() throws {
    var writer = APNsHeaderWriter(authority: "api.push.apple.com")
    let request = try request(Self.message(kind: .alert, collapse: "missed"))
    let first = writer.headers(request, bearer: "bearer abc")
    let second = writer.headers(request, bearer: "bearer abc")
    let kept = Set(["apns-id", "apns-expiration", "apns-collapse-id"])
    let never = Set([":path", "authorization"])
    for (headers, isFirst) in [(first, true), (second, false)] {
      #expect(headers.first(name: ":method") == "POST")
      #expect(headers.first(name: ":scheme") == "https")
      #expect(headers.first(name: ":authority") == "api.push.apple.com")
      #expect(headers.first(name: "authorization") == "bearer abc")
      #expect(headers.count == 11)
      for (name, _, indexing) in headers.indexed {
        let isIndexable = never.contains(name) ? false : kept.contains(name) ? isFirst : true
        #expect((indexing == .indexable) == isIndexable, "\(name)")
      }
    }
  }

  @Test("the peer's table never holds a path, a provider token or a second id")
  func table() throws {
    var writer = APNsHeaderWriter(authority: "api.push.apple.com")
    var encoder = HPACKEncoder(allocator: ByteBufferAllocator())
    var sizes: [Int] = []
    for index in 0..<50 {
      let id = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1" + (index < 10 ? "0\(index)" : "\(index)")
      let request = try request(
        Self.message(
          kind: .alert, id: id, deadline: Self.now + .seconds(Int64(index) + 1),
          collapse: "c\(index)"))
      var out = ByteBuffer()
      try encoder.encode(headers: writer.headers(request, bearer: "bearer \(index)"), to: &out)
      sizes.append(encoder.dynamicTableSize)
    }
    #expect(Set(sizes).count == 1, "it grew after the first request")
  }
}

extension HPACKHeaders {
  fileprivate var indexed: [(String, String, HPACKIndexing)] {
    map { ($0.name, $0.value, $0.indexable) }
  }
}

@Suite("APNs: keys and provider tokens")
struct APNsCredentialsTests {
  static let key = P256.Signing.PrivateKey()

  static func credentials(keyID: String = "KEY1234567") throws -> APNsCredentials {
    try APNsCredentials(team: "TEAM123456", keyID: keyID, pem: key.pemRepresentation)
  }

  @Test("a token is ES256 with R||S, whole seconds, kid and iss")
  func token() throws {
    let token = try Self.credentials().token(issuedAt: 1_700_000_000)
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    try #require(parts.count == 3)
    let texts = try parts.prefix(2).map { part in
      String(decoding: try #require(Self.decode(part)), as: UTF8.self)
    }
    #expect(texts[0] == #"{"alg":"ES256","kid":"KEY1234567"}"#)
    #expect(texts[1] == #"{"iss":"TEAM123456","iat":1700000000}"#)
    let signature = try #require(Self.decode(parts[2]))
    #expect(signature.count == 64)
    let signed = Array("\(parts[0]).\(parts[1])".utf8)
    #expect(
      Self.key.publicKey.isValidSignature(
        try P256.Signing.ECDSASignature(rawRepresentation: signature), for: signed))
  }

  /// A separate decoder, so that the encoder is not checked by itself.
  private static func decode(_ text: Substring) -> [UInt8]? {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    var bits = 0
    var count = 0
    var out: [UInt8] = []
    for character in text {
      guard let value = alphabet.firstIndex(of: character) else { return nil }
      bits = bits << 6 | value
      count += 6
      if count >= 8 {
        count -= 8
        out.append(UInt8(bits >> count & 255))
      }
    }
    return out
  }

  @Test("what is wrong is said without the key")
  func errors() {
    let pem = Self.key.pemRepresentation
    let secret = pem.split(separator: "\n")[1]
    let broken = pem.replacing("PRIVATE", with: "PUBLIC")
    let rsa = "-----BEGIN PRIVATE KEY-----\n\(secret)\n-----END PRIVATE KEY-----"
    for (team, keyID, text, wanted) in [
      ("TEAM12345", "KEY1234567", pem, APNsConfigurationError.badTeam),
      ("TEAM1234\"6", "KEY1234567", pem, .badTeam),
      ("TEAM123456", "", pem, .badKeyID), ("TEAM123456", "KEY1234567", "", .badKey),
      ("TEAM123456", "KEY1234567", broken, .badKey),
      ("TEAM123456", "KEY1234567", rsa, .badKey),
    ] {
      #expect {
        try APNsCredentials(team: team, keyID: keyID, pem: text)
      } throws: { error in
        error as? APNsConfigurationError == wanted && !"\(error)".contains(secret)
      }
    }
  }

  @Test("credentials and configurations show no key, however they are printed")
  func secrecy() throws {
    let configuration = APNsConfiguration(
      name: "apple", credentials: try Self.credentials(), environment: .production,
      topics: ["org.example.app"])
    var text = "\(configuration) \(configuration.credentials)"
    debugPrint(configuration, to: &text)
    dump(configuration, to: &text)
    #expect(text.contains("KEY1234567"))
    for line in Self.key.pemRepresentation.split(separator: "\n") where !line.hasPrefix("--") {
      #expect(!text.contains(line))
    }
    #expect(!text.contains("PrivateKey"))
  }
}
