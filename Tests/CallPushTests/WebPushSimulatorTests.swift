import AsyncHTTPClient
import CallPush
import CallTestKit
import Crypto
import NIOCore
import NIOHTTP1
import NIOSSL
import PushSimulators
import Testing

/// Requests that a strict simulator must refuse.
@Suite("The simulator of a push service says no", .timeLimit(.minutes(1)))
struct WebPushSimulatorTests {
  static let now: Int64 = 1_800_000_000

  @Test func toAllThatIsNotInOrder() async throws {
    let authority = try LoopbackAuthority()
    let key = P256.Signing.PrivateKey()
    func vapid(_ key: P256.Signing.PrivateKey) throws -> VAPIDKey {
      try VAPIDKey(
        pem: Array(key.pemRepresentation.utf8), file: "k", subject: "mailto:a@b", sender: "s")
    }
    let ours = try vapid(key)
    let simulator = try await WebPushSimulator.start(
      authority: authority, applicationServerKey: ours.publicKey
    ) { Self.now }
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.trustRoots = .file(authority.caFile)
    let client = HTTPClient(configuration: .init(tlsConfiguration: tls))
    let text = simulator.subscribe()
    let subscription = try #require(PushSubscription(text))
    let body = try WebPushEncryption.seal([1, 2, 3], for: subscription)
    let good = [
      "authorization": try ours.authorization(origin: simulator.origin, nowSeconds: Self.now),
      "ttl": "30", "urgency": "high", "content-encoding": "aes128gcm",
    ]
    func post(
      _ change: [String: String?] = [:], body sent: [UInt8]? = nil, path: String = "/push/0"
    ) async throws -> Int {
      var headers = good
      for (name, value) in change { headers[name] = value }
      var request = HTTPClientRequest(url: simulator.origin + path)
      request.method = .POST
      request.headers = HTTPHeaders(headers.map { ($0.key, $0.value) })
      request.body = .bytes(sent ?? body)
      return Int(try await client.execute(request, timeout: .seconds(10)).status.code)
    }
    #expect(try await post() == 201)
    #expect(simulator.violations.isEmpty)
    #expect(try await post(path: "/push/7") == 404)
    func with(
      _ key: VAPIDKey, origin: String = simulator.origin, at: Int64 = Self.now
    ) throws -> String { try key.authorization(origin: origin, nowSeconds: at) }
    let forged = try with(vapid(.init())).split(separator: ",")[0] + ", k=\(ours.publicKey)"
    for (name, value, status) in [
      ("ttl", nil, 400), ("ttl", "-1", 400), ("ttl", "1.5", 400), ("urgency", "urgent", 400),
      ("topic", String(repeating: "x", count: 33), 400), ("topic", "a:b", 400),
      ("content-encoding", "aesgcm", 415), ("authorization", nil, 401),
      ("authorization", "Bearer x", 401), ("authorization", try with(vapid(.init())), 403),
      ("authorization", try with(ours, origin: "https://other"), 403),
      ("authorization", try with(ours, at: Self.now - 43_200), 403),
      ("authorization", try with(ours, at: Self.now + 86_400), 403),
      ("authorization", String(forged), 403),
    ] as [(String, String?, Int)] {
      #expect(try await post([name: value]) == status, "\(name): \(value ?? "")")
    }
    var damaged = body
    damaged[90] ^= 1
    for body in [damaged, Array(body.prefix(50)), []] { #expect(try await post(body: body) == 400) }
    #expect(try await post(body: [UInt8](repeating: 0, count: 4097)) == 413)
    // Another message under a salt that was used.
    let again = try WebPushEncryption.seal(
      [4, 5, 6], for: subscription, salt: Array(body[..<16]),
      ephemeralKey: Array(P256.KeyAgreement.PrivateKey().rawRepresentation))
    #expect(try await post(body: again) == 400)
    #expect(simulator.violations.count == 20)
    #expect(simulator.accepted.count == 1)
    try await client.shutdown()
    await simulator.stop()
  }
}
