import CallBus
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

  private func done(_ edge: EdgeFixture) -> Double {
    edge.metric(Self.handshakes + #"{result="done"}"#)
  }
  private func failed(_ edge: EdgeFixture) -> Double {
    edge.metric(Self.handshakes + #"{result="failed"}"#)
  }

  @Test(arguments: [TLSVersion.tlsv12, .tlsv13])
  func devicesAndRequests(version: TLSVersion) async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
    } _: { edge in
      let context = try files.client {
        $0.minimumTLSVersion = version
        $0.maximumTLSVersion = version
      }
      let client = try await edge.client(context)
      try await client.attach(token: try await edge.token("ann"), device: "phone")
      // More than fits into a record.
      let text = String(repeating: "x", count: 60_000)
      let request = PlaceRequest(call: CallID(high: 1, low: 2), description: text)
      client.say(2, .place(CallAddress(callee: "bob", call: CallID(high: 1, low: 2)), request))
      #expect(try await client.reply().id == 2)
      let place = try await edge.shards.next {
        if case .place = $0.body { true } else { false }
      }
      guard case .place(let placed) = place.body else { throw TestFailure("\(place)") }
      #expect(placed.setup.description == text)

      let other = try await edge.client(context)
      #expect(try await other.request("GET", "/healthz").status == 200)
      #expect(
        try await other.request("GET", "/healthz", headers: ["Connection: close"]).status == 200)
      try await other.end()
      #expect(done(edge) == 2 && failed(edge) == 0)
    }
  }

  @Test func olderVersionsAreRefused() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
    } _: { edge in
      let old = try files.client { $0.maximumTLSVersion = .tlsv11 }
      let client = try await edge.client(old)
      client.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
      try await client.end()
      try await edge.until(Self.handshakes + #"{result="failed"}"#) { $0 == 1 }
      #expect(done(edge) == 0)
    }
  }

  // MARK: Peers that do not end, or begin, a handshake

  /// The beginning of a handshake's first record, of 512 bytes.
  private static let half: [UInt8] = [22, 3, 1, 2, 0, 1, 0, 1, 252]

  @Test func halfAHandshake() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    let time = StillTime()
    try await EdgeFixture.run(at: time) {
      $0.tls = tls
    } _: { edge in
      let silent = try await edge.client()
      let half = try await edge.client()
      half.send(Self.half)
      try await edge.until("callmesh_edge_connections_unattached") { $0 == 2 }
      time.pass(.seconds(9))
      half.send([3, 3])
      time.pass(.seconds(2))
      try await half.end()
      try await silent.end()
      try await edge.until("callmesh_edge_connections") { $0 == 0 }
      #expect(edge.metric("callmesh_edge_connections_unattached") == 0)
      try await edge.until(Self.handshakes + #"{result="failed"}"#) { $0 == 1 }
    }
  }

  /// They give way to a new one like all on which no device has attached.
  @Test func halfHandshakesGiveWay() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    let time = StillTime()
    try await EdgeFixture.run(at: time) {
      $0.tls = tls
      $0.eventLoops = 1
      $0.peers.unattachedMax = 2
    } _: { edge in
      let first = try await edge.client()
      first.send(Self.half)
      let second = try await edge.client()
      second.send(Self.half)
      try await edge.until("callmesh_edge_connections_unattached") { $0 == 2 }
      time.pass(.seconds(2))
      let device = try await edge.client(files.client())
      try await device.attach(token: try await edge.token("ann"), device: "phone")
      try await first.end()
      #expect(edge.refused(.unattached) == 1)
    }
  }

  @Test func aHandshakeWithoutEnd() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
      $0.peers.handshakeBytesMax = 300
    } _: { edge in
      let client = try await edge.client()
      client.send(Self.half + [UInt8](repeating: 0, count: 292))
      try await client.end()
      #expect(edge.limited(.handshakeBytes) == 1)
    }
  }

  @Test func bytesThatAreNoTLS() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
    } _: { edge in
      let browser = try await edge.client()
      let answer = try await browser.request("GET", "/healthz")
      #expect(answer.status == 400 && answer.text.contains("This port speaks TLS"))
      try await browser.end()
      let other = try await edge.client()
      other.send([0, 1, 2])
      try await other.end()
      #expect(edge.limited(.noTLS) == 2)
      #expect(done(edge) == 0 && failed(edge) == 0)
    }
  }

  /// Mutated handshakes end the connection, and nothing else.
  @Test func garbageInTheHandshake() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
    } _: { edge in
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
  }

  // MARK: Behind a proxy

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
  @Test func thePROXYHeaderComesFirst() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
      $0.proxyProtocol = true
      $0.trustedProxies = AddressRange.list("127.0.0.1")!
      $0.unlimitedAddresses = []
      $0.peers.connectionsPerAddress = 1
    } _: { edge in
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
  }

  // MARK: Ends

  @Test func aSlowReaderIsClosed() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
    } _: { edge in
      let client = try await edge.client(files.client())
      try await client.attach(token: try await edge.token("ann"), device: "phone")
      let attach = try await edge.shards.next {
        if case .attach = $0.body { true } else { false }
      }
      try await client.channel.setOption(.autoRead, value: false).get()
      let invite = Invite(
        caller: Party(user: "bob", device: "phone"), deadline: Timestamp(microseconds: 0),
        description: String(repeating: "x", count: 60_000))
      let item = EdgeItem(
        session: attach.session.number,
        body: .delivery(
          Delivery(
            call: CallID(high: 1, low: 2), callee: "ann", version: 1,
            at: Timestamp(microseconds: 0), event: .invite(invite))))
      for _ in 0..<600 { edge.say(item) }
      _ = try await edge.shards.next {
        if case .sessionClosed = $0.body { true } else { false }
      }
      #expect(edge.metric(#"callmesh_edge_closes_total{reason="slow_consumer"}"#) == 1)
      try? await client.channel.close().get()
    }
  }

  /// A client that does not take the farewell of TLS has a second.
  @Test func anEdgeThatEndsLetsGo() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
    } _: { edge in
      for index in 0..<5 {
        let client = try await edge.client(files.client())
        try await client.attach(token: try await edge.token("ann"), device: "d\(index)")
        if index == 0 { try await client.channel.setOption(.autoRead, value: false).get() }
      }
    }
  }
}
