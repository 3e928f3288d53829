import CallTestKit
import NIOCore
import NIOHPACK
import Testing

private typealias Kind = HTTP2.FrameType

/// The answers to a client.
struct TransportAnswerTests {
  private func fields(_ payload: [UInt8]) throws -> [String] {
    var decoder = HPACKDecoder(allocator: ByteBufferAllocator())
    var buffer = ByteBuffer(bytes: payload)
    return try decoder.decodeHeaders(from: &buffer).map { "\($0.name)=\($0.value)" }
  }

  @Test func everyStatusIsReadable() throws {
    for reason in APNsReason.allCases {
      var wire = Wire()
      wire.request(1)
      wire.transport.respond(to: 1, APNsResponse(reason), apnsID: "id", uniqueID: "unique")
      let frames = wire.read()
      #expect(frames.map(\.type) == [Kind.headers, Kind.data])
      #expect(
        try fields(frames[0].payload) == [
          ":status=\(reason.status)", "apns-id=id", "apns-unique-id=unique",
        ])
      #expect(frames[1].flags == HTTP2.Flag.endStream)
      #expect(frames[1].payload == APNsResponse(reason).body)
    }
  }

  @Test func aTableOfAnotherSizeIsConfirmedInTheNextBlock() throws {
    var wire = Wire()
    wire.settings([(.headerTableSize, 0)])
    _ = wire.read()
    wire.transport.announce(limit: 2)
    wire.request(1)
    wire.request(3)
    for stream in [1, 3] as [UInt32] { wire.respond(stream) }
    let blocks = wire.read().filter { $0.type == Kind.headers }.map(\.payload)
    #expect(blocks[0] == [0x20] + blocks[1])
    #expect(try fields(blocks[0]) == [":status=200", "apns-id=id"])
  }

  @Test func anAnswerIsGivenOnce() {
    var wire = Wire()
    wire.exchange(1)
    _ = wire.read()
    wire.respond(1)
    wire.respond(99)
    wire.transport.reset(1, code: 8)
    #expect(wire.read() == [])
  }

  @Test func aBodyWaitsForTheWindowsOfStreamAndConnection() {
    var wire = Wire()
    wire.settings([(.initialWindowSize, 5)])
    _ = wire.read()
    wire.request(1)
    let body = APNsResponse(.badTopic).body
    wire.respond(1, APNsResponse(.badTopic))
    #expect(wire.read().last?.payload == Array(body.prefix(5)))
    // The connection's own window is no reason.
    wire.frame(Kind.windowUpdate, 0, 0, [0, 0, 1, 0])
    #expect(wire.read() == [])
    wire.frame(Kind.windowUpdate, 0, 1, [0, 0, 0, 3])
    #expect(wire.read().map(\.payload) == [Array(body[5..<8])])
    // SETTINGS move the windows of open streams, too.
    wire.settings([(.initialWindowSize, 100)])
    let last = wire.read().last
    #expect(last?.payload == Array(body[8...]))
    #expect(last?.flags == HTTP2.Flag.endStream)
    #expect(wire.transport.inFlight.isEmpty)
  }

  @Test func theConnectionsWindowHoldsBackManyBodies() {
    var wire = Wire()
    let body = APNsResponse(.badTopic).body
    var sent = 0
    for stream in stride(from: UInt32(1), to: 2 * 65535 / UInt32(body.count) + 20, by: 2) {
      wire.exchange(stream, APNsResponse(.badTopic))
      sent += wire.read().filter { $0.type == Kind.data }.reduce(0) { $0 + $1.payload.count }
      if !wire.transport.inFlight.isEmpty { break }
    }
    #expect(sent == 65535)
    wire.frame(Kind.windowUpdate, 0, 0, [0, 0, 1, 0])
    #expect(wire.transport.inFlight.isEmpty)
    #expect(wire.transport.violations == [])
  }

  @Test("R25: behind a GOAWAY those up to its last stream are answered, later ones never")
  func goAway() {
    var wire = Wire()
    wire.transport.announce(limit: 10)
    for stream in [1, 3, 5] as [UInt32] { wire.request(stream) }
    _ = wire.read()
    wire.transport.goAway(last: 3, reason: .shutdown, closes: true)
    let goAway = wire.read().first
    #expect(goAway?.word == 3)
    #expect(goAway?.code == HTTP2.ErrorCode.none.rawValue)
    #expect(goAway?.debug == #"{"reason":"Shutdown"}"#)
    wire.request(7)
    #expect(wire.transport.counts.streamsBehindGoAway == 1)
    for stream in [5, 7, 3] as [UInt32] { wire.respond(stream) }
    #expect(wire.read().map(\.stream) == [3])
    #expect(!wire.transport.isFinished)
    wire.respond(1)
    #expect(wire.transport.isFinished)
    #expect(wire.transport.violations == [])
  }

  @Test("R26: a GOAWAY that only warns forgets nothing") func warning() {
    var wire = Wire()
    wire.request(1)
    wire.transport.goAway(last: 0x7FFF_FFFF, closes: false)
    wire.respond(1)
    wire.exchange(3)
    #expect(!wire.transport.isFinished)
    wire.transport.goAway(last: 3, closes: true)
    #expect(wire.transport.isFinished)
    #expect(wire.read().map(\.type) == [Kind.goAway, Kind.headers, Kind.headers, Kind.goAway])
  }

  @Test func whenTheClientGoesItsOpenStreamsAreAnswered() {
    var wire = Wire()
    wire.request(1)
    wire.frame(Kind.goAway, 0, 0, Array(repeating: 0, count: 8))
    #expect(!wire.transport.isFinished)
    wire.respond(1)
    #expect(wire.read().last?.stream == 1)
    #expect(wire.transport.isFinished)
  }

  @Test("R28: a stream is refused, or reset so many times") func resets() {
    var wire = Wire()
    wire.request(1)
    wire.transport.reset(1, code: HTTP2.ErrorCode.refusedStream.rawValue)
    #expect(wire.read().map(\.word) == [HTTP2.ErrorCode.refusedStream.rawValue])
    wire.request(3)
    wire.transport.reset(3, code: 8, times: 3)
    #expect(wire.read().map(\.stream) == [3, 3, 3])
    #expect(wire.transport.inFlight.isEmpty)
    #expect(!wire.transport.isDead)
  }
}
