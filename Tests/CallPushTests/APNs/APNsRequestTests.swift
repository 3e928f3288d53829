import CallCore
import CallPush
import Crypto
import Foundation
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
    try APNsRequest(message, voipKeep: keep)
  }

  /// - Parameter changes: to the headers of a VoIP push.
  private func check(
    _ message: PushMessage, keep: Span = .seconds(5), _ changes: [String: String] = [:],
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    var writer = APNsHeaderWriter(authority: "api.push.apple.com")
    let headers = writer.headers(
      try request(message, keep: keep), bearer: "bearer abc", now: Self.now)
    let voip = [
      ":method": "POST", ":scheme": "https", ":authority": "api.push.apple.com",
      ":path": "/3/device/" + Self.token, "authorization": "bearer abc", "apns-id": Self.id,
      "apns-push-type": "voip", "apns-topic": "org.example.app.voip",
      "apns-expiration": "1700000005", "apns-priority": "10",
    ]
    #expect(
      Dictionary(uniqueKeysWithValues: headers.map { ($0.name, $0.value) })
        == voip.merging(changes) { $1 }, sourceLocation: sourceLocation)
  }

  /// A repeated attempt would leave with a time that has passed.
  @Test func theExpirationIsTheAttempts() throws {
    let later = Self.now + .seconds(7)
    #expect(try request(Self.message()).expiration(at: later) == 1_700_000_012)
    let short = Self.message(deadline: Self.now + .seconds(8))
    #expect(try request(short).expiration(at: later) == 1_700_000_008)
    #expect(try request(Self.message(kind: .alert)).expiration(at: later) == 1_700_000_030)
  }

  @Test func headers() throws {
    try check(Self.message(collapse: "call"))
    try check(Self.message(topic: "org.example.app.voip"))
    try check(Self.message(id: Self.id.uppercased(), token: Self.token.uppercased()))
    // A VoIP push is kept no longer than its deadline, or not at all.
    try check(
      Self.message(deadline: Self.now + .seconds(2)), ["apns-expiration": "1700000002"])
    try check(Self.message(), keep: .seconds(0), ["apns-expiration": "0"])
    let plain = ["apns-topic": "org.example.app", "apns-expiration": "1700000030"]
    try check(
      Self.message(kind: .alert, topic: "org.example.app.voip", collapse: "missed"),
      plain.merging(["apns-push-type": "alert", "apns-collapse-id": "missed"]) { $1 })
    try check(
      Self.message(kind: .background),
      plain.merging(["apns-push-type": "background", "apns-priority": "5"]) { $1 })
  }

  static let collapse = String(repeating: "c", count: 64)

  @Test func theLargest() throws {
    #expect(try request(Self.message(payload: 5120)).payload.count == 5120)
    for kind in [PushMessage.Kind.alert, .background] {
      #expect(try request(Self.message(kind: kind, payload: 4096)).payload.count == 4096)
    }
    let alert = Self.message(kind: .alert, collapse: Self.collapse)
    #expect(try request(alert).collapseID == Self.collapse)
  }

  static let refused: [(PushMessage, APNsRequest.Refusal)] =
    [
      (message(payload: 5121), .payloadTooLarge), (message(payload: 0), .payloadEmpty),
      (message(kind: .alert, payload: 4097), .payloadTooLarge),
      (message(kind: .background, payload: 4097), .payloadTooLarge),
      (message(kind: .alert, collapse: collapse + "c"), .badCollapseID),
    ]
    // A token that could not stand in a path.
    + ["", "0", "0a0", "zz", "../..", "0a?b", "0a\n0", String(repeating: "0", count: 514)]
    .map { (message(token: $0), APNsRequest.Refusal.badToken) }
    + [
      "", "call", "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "{0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f}",
      "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1fg", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f\n",
    ].map { (message(id: $0), APNsRequest.Refusal.badMessageID) }

  @Test func refusals() {
    for (message, refusal) in Self.refused {
      #expect(throws: refusal, "\(message.id) \(message.token.token)") { try request(message) }
    }
  }

  @Test("what HPACK may remember of the headers") func indexing() throws {
    var writer = APNsHeaderWriter(authority: "api.push.apple.com")
    let request = try request(Self.message(kind: .alert, collapse: "missed"))
    let kept = Set(["apns-id", "apns-expiration", "apns-collapse-id"])
    let never = Set([":path", "authorization"])
    for isFirst in [true, false] {
      let headers = writer.headers(request, bearer: "bearer abc", now: Self.now)
      #expect(headers.count == 11)
      for (name, _, indexing) in headers.map({ ($0.name, $0.value, $0.indexable) }) {
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
      try encoder.encode(
        headers: writer.headers(request, bearer: "bearer \(index)", now: Self.now), to: &out)
      sizes.append(encoder.dynamicTableSize)
    }
    #expect(Set(sizes).count == 1, "it grew after the first request")
  }
}

@Suite("APNs: keys and provider tokens")
struct APNsCredentialsTests {
  static let key = P256.Signing.PrivateKey()

  static func credentials(keyID: String = "KEY1234567") throws -> APNsCredentials {
    try APNsCredentials(team: "TEAM123456", keyID: keyID, pem: key.pemRepresentation)
  }

  @Test("a token is ES256 with R||S, whole seconds, kid and iss") func token() throws {
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

  /// Not with our own codec, which made the token.
  private static func decode(_ text: Substring) -> [UInt8]? {
    let base64 = String(text).replacing("-", with: "+").replacing("_", with: "/")
    let padding = String(repeating: "=", count: -text.count & 3)
    return Data(base64Encoded: base64 + padding).map { Array($0) }
  }

  @Test("what is wrong is said without the key") func errors() {
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
