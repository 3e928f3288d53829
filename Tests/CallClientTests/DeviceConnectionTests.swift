import CallClient
import CallCore
import CallWire
import NIOCore
import NIOEmbedded
import Testing

/// Notes what a connection tells its owner.
final class Owner: DeviceLinkDelegate {
  var isOpen = false
  var frames: [ServerFrame] = []
  var reads = 0
  var closed: LinkClosed?
  func linkOpened() { isOpen = true }
  func linkReceived(_ frame: ServerFrame) { frames.append(frame) }
  func linkReadCompleted() { reads += 1 }
  func linkClosed(_ cause: LinkClosed) { closed = cause }
}

@Suite struct DeviceConnectionTests {
  let owner = Owner()
  let channel = EmbeddedChannel()
  let connection: DeviceConnection

  init() throws {
    connection = DeviceConnection(
      edge: EdgeAddress(host: "edge", port: 1), codec: .protobuf, delegate: owner, seed: 1)
    try channel.pipeline.syncOperations.addHandler(connection)
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
  }

  private func request() throws -> String {
    String(decoding: try sent(), as: UTF8.self)
  }

  private func receive(_ bytes: [UInt8]) throws {
    try channel.writeInbound(ByteBuffer(bytes: bytes))
  }

  private func receive(_ text: String) throws { try receive(Array(text.utf8)) }

  /// The frames that were sent.
  private func sent() throws -> [UInt8] {
    Array(try #require(try channel.readOutbound(as: ByteBuffer.self)).readableBytesView)
  }

  private let frame = ServerFrame.reply(id: 7, .done)
  private var payload: [UInt8] { DeviceCodec.protobuf.encode(frame) }

  /// The answer that RFC 6455 gives for the key of this seed, computed by another implementation.
  private func accept(_ request: String) -> String {
    let key = request.split(separator: "\r\n").first { $0.hasPrefix("Sec-WebSocket-Key: ") }!
    return LoopbackServer.accept(String(key.dropFirst(19)))
  }

  private func open() throws {
    let accept = accept(try request())
    try receive(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: \(accept)"
        + "\r\nsec-websocket-protocol: callmesh.v1.pb\r\n\r\n")
  }

  @Test func asksForTheUpgrade() throws {
    let request = try request()
    #expect(request.hasPrefix("GET /v1/connect HTTP/1.1\r\nHost: edge:1\r\n"))
    #expect(request.contains("\r\nSec-WebSocket-Protocol: callmesh.v1.pb\r\n"))
    #expect(request.hasSuffix("\r\n\r\n"))
  }

  @Test func opens() throws {
    try open()
    #expect(owner.isOpen)
    #expect(owner.closed == nil)
  }

  @Test(arguments: [
    "HTTP/1.1 401 Unauthorized\r\n\r\n",
    "HTTP/1.1 101 X\r\nSec-WebSocket-Accept: wrong\r\n\r\n",
    "nonsense\r\n\r\n",
    String(repeating: "x", count: 9000),
  ])
  func refusesABadAnswer(answer: String) throws {
    try receive(answer)
    #expect(owner.closed?.kind == "handshake failed")
    #expect(!owner.isOpen)
  }

  @Test func aByteAtATimeIsReadAsAWhole() throws {
    try open()
    for byte in [0x82, UInt8(payload.count)] + payload { try receive([byte]) }
    #expect(owner.frames == [frame])
  }

  @Test func fragmentsAreJoined() throws {
    try open()
    try receive([0x02, 1, payload[0], 0x89, 0])
    try receive([0x80, UInt8(payload.count - 1)] + payload.dropFirst())
    #expect(owner.frames == [frame])
    #expect(try sent().prefix(2) == [0x8A, 0x80])
  }

  @Test func pingsAreAnsweredWithTheirBytesMasked() throws {
    try open()
    try receive([0x89, 2, 65, 66])
    let pong = try sent()
    #expect(pong.count == 8)
    #expect(Array(pong[0..<2]) == [0x8A, 0x82])
    #expect([pong[6] ^ pong[2], pong[7] ^ pong[3]] == [65, 66])
    #expect(owner.reads == 2)
  }

  @Test(arguments: [
    [0x82, 0x81, 0, 0, 0, 0, 1] as [UInt8],  // Masked.
    [0xC2, 0],  // A reserved bit.
    [0x83, 0],  // Unknown opcode.
    [0x80, 0],  // A fragment of nothing.
    [0x09, 0],  // A ping in pieces.
    [0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0],  // Too large.
    [0x82, 127, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
    [0x82, 1, 0xFF],  // Not a frame of the protocol.
  ])
  func badFramesCloseTheConnection(bytes: [UInt8]) throws {
    try open()
    try receive(bytes)
    #expect(owner.closed?.kind == "protocol error")
  }

  @Test func aFrameThatALaterVersionAddedIsDropped() throws {
    try open()
    // The field 200, empty.
    try receive([0x82, 3, 0xC2, 0x0C, 0x00])
    #expect(owner.closed == nil)
    try receive([0x82, UInt8(payload.count)] + payload)
    #expect(owner.frames == [frame])
  }

  @Test func noiseNeverTraps() {
    var random = SplitMix64(seed: 4)
    for _ in 0..<2000 {
      let channel = EmbeddedChannel()
      let connection = DeviceConnection(
        edge: EdgeAddress(host: "edge", port: 1), codec: .json, delegate: owner,
        seed: random.next())
      try? channel.pipeline.syncOperations.addHandler(connection)
      channel.pipeline.fireChannelActive()
      let bytes = (0..<Int.random(in: 0...200, using: &random)).map { _ in
        UInt8.random(in: 0...255, using: &random)
      }
      _ = try? channel.writeInbound(ByteBuffer(bytes: bytes))
    }
  }

  @Test func aCloseIsReported() throws {
    try open()
    try receive([0x88, 2, 0x03, 0xE9])
    #expect(owner.closed == .closedByPeer(code: 1001))
  }

  @Test func anEndOfTheStreamIsReportedOnce() throws {
    try open()
    channel.pipeline.fireChannelInactive()
    #expect(owner.closed == .broken("end of stream"))
  }

  @Test func itsOwnerHearsNothingOfItsOwnClose() throws {
    try open()
    connection.close(abruptly: false)
    #expect(try sent().first == 0x88)
    #expect(owner.closed == nil)
  }
}
