import CallCore
import CallEdge
import CallTelemetry
import CallTestKit
import CallWire
import Foundation
import NIOCore
import NIOSSL
import Testing

/// TLS at the devices' port.
@Suite(.timeLimit(.minutes(2))) struct TLSTests {
  private static let handshakes = "callmesh_edge_tls_handshakes_total"

  private var done: Double { edge.metric(Self.handshakes + #"{result="done"}"#) }
  private var failed: Double { edge.metric(Self.handshakes + #"{result="failed"}"#) }

  @Test(.edgeWithTLS(), arguments: [TLSVersion.tlsv12, .tlsv13])
  func devicesAndRequests(version: TLSVersion) async throws {
    let context = try files.client {
      $0.minimumTLSVersion = version
      $0.maximumTLSVersion = version
    }
    let client = try await edge.client(context)
    try await client.attach(token: try edge.token("ann"), device: "phone")
    // More than fits into a record.
    let text = String(repeating: "x", count: 60_000)
    try await client.ask(2, .place(CallID(high: 1, low: 2), description: text))
    #expect(try await edge.shards.nextPlace().setup.description == text)

    let other = try await edge.client(context)
    for headers in [[], ["Connection: close"]] {
      #expect(try await other.request("GET", "/healthz", headers: headers).status == 200)
    }
    try await other.end()
    #expect(done == 2 && failed == 0)
  }

  @Test(.edgeWithTLS()) func olderVersionsAreRefused() async throws {
    let old = try files.client { $0.maximumTLSVersion = .tlsv11 }
    let client = try await edge.client(old)
    client.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    try await client.end()
    try await edge.until(Self.handshakes + #"{result="failed"}"#) { $0 == 1 }
    #expect(done == 0)
  }

  /// The beginning of a handshake's first record, of 512 bytes.
  private static let half: [UInt8] = [22, 3, 1, 2, 0, 1, 0, 1, 252]

  @Test(.edgeWithTLS(standsStill: true)) func halfAHandshake() async throws {
    let silent = try await edge.client()
    let half = try await edge.client()
    half.send(Self.half)
    try await edge.until("callmesh_edge_connections_unattached") { $0 == 2 }
    edge.pass(.seconds(9))
    half.send([3, 3])
    edge.pass(.seconds(2))
    try await half.end()
    try await silent.end()
    try await edge.until("callmesh_edge_connections") { $0 == 0 }
    #expect(edge.metric("callmesh_edge_connections_unattached") == 0)
    try await edge.until(Self.handshakes + #"{result="failed"}"#) { $0 == 1 }
  }

  /// They give way to a new one like all on which no device has attached.
  @Test(
    .edgeWithTLS(standsStill: true) {
      $0.eventLoops = 1
      $0.peers.unattachedMax = 2
    })
  func halfHandshakesGiveWay() async throws {
    let (first, second) = (try await edge.client(), try await edge.client())
    for client in [first, second] { client.send(Self.half) }
    try await edge.until("callmesh_edge_connections_unattached") { $0 == 2 }
    edge.pass(.seconds(2))
    let device = try await edge.client(files.client())
    try await device.attach(token: try edge.token("ann"), device: "phone")
    try await first.end()
    #expect(edge.refused(.unattached) == 1)
  }

  @Test(.edgeWithTLS { $0.peers.handshakeBytesMax = 300 })
  func aHandshakeWithoutEnd() async throws {
    let client = try await edge.client()
    client.send(Self.half + [UInt8](repeating: 0, count: 292))
    try await client.end()
    #expect(edge.limited(.handshakeBytes) == 1)
  }

  @Test(.edgeWithTLS()) func bytesThatAreNoTLS() async throws {
    let browser = try await edge.client()
    let answer = try await browser.request("GET", "/healthz")
    #expect(answer.status == 400 && answer.text.contains("This port speaks TLS"))
    try await browser.end()
    let other = try await edge.client()
    other.send([0, 1, 2])
    try await other.end()
    #expect(edge.limited(.noTLS) == 2)
    #expect(done == 0 && failed == 0)
  }

  /// Mutated handshakes end the connection, and nothing else.
  @Test(.edgeWithTLS()) func garbageInTheHandshake() async throws {
    for seed in 0..<40 {
      let client = try await edge.client()
      let bytes = (0..<300).map { UInt8(truncatingIfNeeded: ($0 * 31 + seed * 17) ^ ($0 >> 3)) }
      client.send([22, 3, UInt8(seed % 5), 0, UInt8(1 + seed)] + bytes)
      // The edge may have been faster.
      try? await client.channel.close(mode: .output).get()
      try await client.end()
    }
    let good = try await edge.client(files.client())
    #expect(try await good.request("GET", "/healthz").status == 200)
  }

  /// Writes bytes before anything else.
  private final class Greeting: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private let bytes: [UInt8]
    init(_ bytes: [UInt8]) { self.bytes = bytes }
    func channelActive(context: ChannelHandlerContext) {
      context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
      context.fireChannelActive()
    }
  }

  /// The proxy's header comes in the clear, and TLS behind it is the device's.
  @Test(
    .edgeWithTLS {
      $0.proxyProtocol = true
      $0.trustedProxies = AddressRange.list("127.0.0.1")!
      $0.unlimitedAddresses = []
      $0.peers.connectionsPerAddress = 1
    })
  func thePROXYHeaderComesFirst() async throws {
    let context = try files.client()
    func client() async throws -> RawClient {
      try await RawClient.connect(port: edge.port) {
        [Greeting(proxyHeader()), try NIOSSLClientHandler(context: context, serverHostname: nil)]
      }
    }
    let first = try await client()
    #expect(try await first.request("GET", "/healthz").status == 200)
    #expect(edge.metric("callmesh_edge_addresses") == 1)
    let second = try await client()
    second.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    try await second.end()
    #expect(edge.refused(.address) == 1)
  }

  @Test(.edgeWithTLS()) func aSlowReaderIsClosed() async throws {
    let client = try await edge.client(files.client())
    try await client.attach(token: try edge.token("ann"), device: "phone")
    let attach = try await edge.shards.next(\.isAttach)
    try await client.channel.setOption(.autoRead, value: false).get()
    edge.flood(attach.session.number, items: 600)
    _ = try await edge.shards.next(\.isEnd)
    #expect(edge.metric(#"callmesh_edge_closes_total{reason="slow_consumer"}"#) == 1)
    try? await client.channel.close().get()
  }

  /// A client that does not take the farewell of TLS has a second.
  @Test(.edgeWithTLS()) func anEdgeThatEndsLetsGo() async throws {
    for index in 0..<5 {
      let client = try await edge.client(files.client())
      try await client.attach(token: try edge.token("ann"), device: "d\(index)")
      if index == 0 { try await client.channel.setOption(.autoRead, value: false).get() }
    }
  }

  @Test(.edgeWithTLS()) func aRenewedCertificateDropsNoSession() async throws {
    let tls = try #require(edge.configuration.tls)
    let context = try files.client()
    let before = try await edge.client(context)
    try await before.attach(token: try edge.token("ann"), device: "phone")
    let former = try await before.serial()
    try files.renew(seconds: 1000)
    try tls.reload()
    let after = try await edge.client(context)
    #expect(try await after.request("GET", "/healthz").status == 200)
    #expect(try await after.serial() != former)
    try await before.ask(2, .ping)
    #expect(tls.refused == 0)
  }

  @Test(.edgeWithTLS()) func aBadPairIsRefusedAndTheFormerOneStays() async throws {
    let tls = try #require(edge.configuration.tls)
    let context = try files.client()
    let before = try await edge.client(context)
    #expect(try await before.request("GET", "/healthz").status == 200)
    // The new certificate is there, and its key not yet.
    try files.authority.issue().certificate
      .write(toFile: files.certificateFile, atomically: true, encoding: .utf8)
    let error = #expect(throws: EdgeCertificateError.self) { try tls.reload() }
    #expect(error?.part == .key)
    #expect(edge.metric("callmesh_edge_certificate_refused_total") == 1)
    let after = try await edge.client(context)
    #expect(try await after.request("GET", "/healthz").status == 200)
    #expect(try await after.serial() == (try await before.serial()))
  }

  @Test(.edgeWithTLS()) func operatorsSeeWhenItExpires() async throws {
    let tls = try #require(edge.configuration.tls)
    #expect(try await edge.status().edge?.certificateExpires == tls.certificate.expires)
    let left = edge.metric("callmesh_edge_certificate_expires_seconds")
    // The edge's clock in tests is another one than the certificate's.
    #expect(abs(left - Double(tls.certificate.expires - wallSeconds)) < 60)
    try await EdgeFixture.run { edge in
      #expect(edge.metric("callmesh_edge_certificate_expires_seconds") == .infinity)
    }
  }

  private func refusal(_ files: TLSFiles) throws -> EdgeCertificateError {
    try #require(#expect(throws: EdgeCertificateError.self) { try files.edgeTLS() })
  }

  @Test func aPairThatDoesNotGoTogether() throws {
    let files = try TLSFiles()
    try files.write(files.authority.issue().certificate, files.authority.issue().key)
    let error = try refusal(files)
    #expect(error.part == .key && error.file == files.keyFile)
    #expect(error.what.contains(files.certificateFile))
    // As with the authority's own certificate in front of the server's.
    let identity = try files.authority.issue()
    try files.write(files.authority.certificate + "\n" + identity.certificate, identity.key)
    #expect(try refusal(files).remedy.contains("comes first"))
    try files.write(identity.certificate + "\n" + files.authority.certificate, identity.key)
    _ = try files.edgeTLS()
  }

  @Test func filesThatAreNoCertificateAndNoKey() throws {
    let files = try TLSFiles()
    let identity = try files.authority.issue()
    try files.write("nothing", identity.key)
    #expect(try refusal(files).part == .certificate)
    try files.write(identity.certificate, identity.certificate)
    #expect(try refusal(files).what == "it holds no private key in PEM")
    let encrypted =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    try files.write(identity.certificate, encrypted)
    #expect(try refusal(files).what == "the key is encrypted")
    try FileManager.default.removeItem(atPath: files.keyFile)
    let missing = try refusal(files)
    #expect(missing.part == .key && missing.what == "the file cannot be read (there is none)")
  }
}

/// A certificate and its key in files of a test's own, and clients that trust who signed it.
final class TLSFiles: Sendable {
  @TaskLocal static var current: TLSFiles?

  let authority: LoopbackAuthority
  let folder: String
  var certificateFile: String { folder + "/edge.pem" }
  var keyFile: String { folder + "/edge-key.pem" }

  init() throws {
    authority = try LoopbackAuthority()
    folder = NSTemporaryDirectory() + "/callmesh-tls-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try renew()
  }

  deinit { try? FileManager.default.removeItem(atPath: folder) }

  /// Writes another certificate into the files.
  func renew(seconds: Double = 86_400) throws {
    let identity = try authority.issue(seconds: seconds)
    try write(identity.certificate, identity.key)
  }

  func write(_ certificate: String, _ key: String) throws {
    try certificate.write(toFile: certificateFile, atomically: true, encoding: .utf8)
    try key.write(toFile: keyFile, atomically: true, encoding: .utf8)
  }

  func edgeTLS() throws -> EdgeTLS {
    try EdgeTLS(certificateFile: certificateFile, keyFile: keyFile)
  }

  /// TLS of a client that connects to 127.0.0.1.
  func client(
    _ change: (inout TLSConfiguration) -> Void = { _ in }
  ) throws -> NIOSSLContext {
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.trustRoots = .file(authority.caFile)
    change(&configuration)
    return try NIOSSLContext(configuration: configuration)
  }
}

/// Those of the edge of a test with a trait of TLS.
var files: TLSFiles { TLSFiles.current! }

extension EdgeFixture {
  /// A client that speaks TLS.
  func client(_ context: NIOSSLContext) async throws -> RawClient {
    try await RawClient.connect(port: port) {
      [try NIOSSLClientHandler(context: context, serverHostname: nil)]
    }
  }
}

extension RawClient {
  /// Which certificate the edge showed.
  func serial() async throws -> [UInt8] {
    try await channel.nioSSL_peerCertificate().get()?.serialNumber ?? []
  }
}
