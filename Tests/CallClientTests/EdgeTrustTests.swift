import CallClient
import CallCore
import CallTestKit
import CallWire
import NIOSSL
import Testing

/// Whom devices take for an edge at `wss://` and `https://`.
@Suite(.timeLimit(.minutes(1))) struct EdgeTrustTests {
  private let authority: LoopbackAuthority

  init() throws { authority = try LoopbackAuthority() }

  /// An edge that shows the given certificate.
  private func edge(_ identity: LoopbackAuthority.Identity?) async throws -> LoopbackServer {
    let context = try identity.map {
      try authority.serverContext(protocols: ["http/1.1"], identity: $0)
    }
    return try await LoopbackServer.start(tls: context)
  }

  /// Why a device does not trust the edge that shows a certificate; nil: it attaches.
  private func problem(
    _ identity: LoopbackAuthority.Identity?, host: String = "localhost", _ trust: EdgeTrust? = nil
  ) async throws -> String? {
    let server = try await edge(identity)
    let device = CallDevice(
      .init(edges: ["wss://\(host):\(server.port)"], token: "token", device: "d1"),
      trust: try trust ?? self.trust)
    device.start()
    var problem: String? = "nothing"
    for await event in device.events {
      switch event {
      case .attached: problem = nil
      case .notTrusted(let what): problem = what
      default: continue
      }
      break
    }
    device.stop()
    try await server.stop()
    return problem
  }

  private var trust: EdgeTrust {
    get throws { try EdgeTrust(caFile: authority.caFile) }
  }

  @Test(arguments: ["localhost", "127.0.0.1"]) func anEdge(host: String) async throws {
    #expect(try await problem(authority.issue(), host: host) == nil)
  }

  @Test(arguments: ["localhost", "127.0.0.1"]) func anotherName(host: String) async throws {
    let other = try authority.issue(names: ["edge.example"], addresses: ["192.0.2.1"])
    #expect(try await problem(other, host: host) == "TLS: the certificate is not for \(host)")
  }

  private static let untrusted =
    "TLS: the certificate is of no authority that is trusted, or not valid now"

  @Test func anotherAuthority() async throws {
    let stranger = try LoopbackAuthority()
    for trust in [try EdgeTrust(caFile: stranger.caFile), .system] {
      #expect(try await problem(authority.issue(), trust) == Self.untrusted)
    }
  }

  @Test func aCertificateThatExpired() async throws {
    #expect(try await problem(authority.issue(seconds: -60)) == Self.untrusted)
  }

  @Test func whoSpeaksNoTLS() async throws {
    #expect(try await problem(nil) == "TLS: the other side does not speak it")
  }

  // MARK: HTTP

  private static func options(deadline: Span) -> EdgeHTTPClient.Options {
    var options = EdgeHTTPClient.Options()
    options.deadline = deadline
    options.backoffMinimum = .milliseconds(20)
    options.backoffMaximum = .milliseconds(40)
    return options
  }

  @Test func requests() async throws {
    let server = try await LoopbackHTTPServer.start(authority: authority) { _, _ in
      .status(200, "{}")
    }
    let edges = ["wss://localhost:\(server.port)"]
    let client = EdgeHTTPClient(
      edges: edges, options: Self.options(deadline: .seconds(40)), trust: try trust)
    try await client.unregister("d", token: "jwt")
    #expect(server.requests.map(\.target) == ["/v1/devices/d"])
    // Who is not believed gets no token.
    let stranger = EdgeHTTPClient(edges: edges, options: Self.options(deadline: .milliseconds(500)))
    let error = await #expect(throws: CallError.self) {
      try await stranger.unregister("d", token: "jwt")
    }
    #expect(error?.code == .tryAgain && error?.message == Self.untrusted)
    #expect(server.requests.count == 1)
    await server.stop()
  }

  // MARK: Files

  @Test func filesThatHoldNoAuthority() {
    let missing = #expect(throws: EdgeTrustError.self) { try EdgeTrust(caFile: "/nowhere/ca.pem") }
    #expect(missing?.description.hasPrefix("/nowhere/ca.pem: the file cannot be read") == true)
    let empty = #expect(throws: EdgeTrustError.self) { try EdgeTrust(caFile: #filePath) }
    #expect(empty?.description.contains("no certificate in PEM") == true)
  }
}
