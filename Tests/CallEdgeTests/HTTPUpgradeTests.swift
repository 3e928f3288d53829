import CallEdge
import CallWire
import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

/// The turn from HTTP to a WebSocket, by peers that do not say it as one should.
@Suite(.timeLimit(.minutes(2))) struct HTTPUpgradeTests {
  private static func upgrade(_ connection: [String]) -> String {
    RawClient.text(
      "GET", "/v1/connect",
      headers: connection
        + RawClient.upgradeHeaders("callmesh.v1.pb").filter { !$0.hasPrefix("Connection") })
  }

  /// Where there is no upgrade the parser goes on reading HTTP: what follows in the same segment is a request to it. Two
  /// readers of one header may differ about it: one of them passes over a tab, the other does not.
  @Test(
    .edge(),
    arguments: [
      ([], [426]), (["Connection: keep-alive"], [426]),
      (["Connection: keep-alive, upgraded"], [426]), (["Connection: up, grade"], [426]),
      (["Connection: upgrade\t"], [101, 426]), (["Connection: \tupgrade"], [101, 426]),
      (["Connection: upgrade ;x"], [101, 426]),
    ])
  func whatOneReaderTakesForAnUpgradeAndAnotherDoesNot(
    connection: [String], statuses: [Int]
  ) async throws {
    let client = try await edge.client()
    client.send(Self.upgrade(connection) + RawClient.text("GET", "/healthz"))
    let response = try await client.response()
    #expect(statuses.contains(response.status))
    #expect(response.status == 101 || response.headers["upgrade"] == "websocket")
    try await client.end()
    #expect(try await edge.request("GET", "/healthz").status == 200)
  }

  @Test(
    .edge(),
    arguments: [
      ["Connection: Upgrade"], ["connection: keep-alive, UPGRADE"],
      ["Connection: keep-alive", "Connection: upgrade"],
    ])
  func theConnectionOptionMayStandInAList(connection: [String]) async throws {
    let client = try await edge.client()
    client.send(Self.upgrade(connection))
    #expect(try await client.response().status == 101)
    try await client.attach(AttachRequest(token: try edge.token("ann"), device: "phone"))
  }

  /// Bytes that a peer sends behind a head at which the parser stops are kept, but not all of them.
  @Test func whatIsKeptBehindAnUpgradeIsBounded() throws {
    let channel = EmbeddedChannel(handlers: [HTTPDecoding.decoder(), HeadReader()])
    let head = "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n"
    try channel.writeInbound(ByteBuffer(string: head))
    let kibibyte = ByteBuffer(repeating: 0x61, count: 1024)
    for _ in 0..<(HTTPDecoding.bufferBytesMax / 1024) { try channel.writeInbound(kibibyte) }
    #expect(throws: ByteToMessageDecoderError.PayloadTooLargeError.self) {
      try channel.writeInbound(kibibyte)
    }
    _ = try? channel.finish()
  }

  /// A head as large as any may be is read, also where it comes in pieces.
  @Test func theLargestHeadHasRoom() throws {
    let reader = HeadReader()
    let channel = EmbeddedChannel(handlers: [HTTPDecoding.decoder(), reader])
    let large = String(repeating: "x", count: 16_000)
    let head = "GET /healthz HTTP/1.1\r\nHost: edge\r\nA: \(large)\r\nB: \(large)\r\n\r\n"
    let bytes = Array(head.utf8)
    for start in stride(from: 0, to: bytes.count, by: 1000) {
      try channel.writeInbound(ByteBuffer(bytes: bytes[start..<min(start + 1000, bytes.count)]))
    }
    #expect(reader.heads.map { $0.headers["b"].first?.utf8.count } == [16_000])
    _ = try? channel.finish()
  }
}

/// Keeps the heads that a decoder reads.
private final class HeadReader: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  private(set) var heads: [HTTPRequestHead] = []

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .head(let head) = unwrapInboundIn(data) { heads.append(head) }
  }
}
