import CallTestKit
import NIOCore
import Testing

private typealias Kind = HTTP2.FrameType

/// The limit of streams, and what a client may do.
struct TransportTests {
  @Test("R2: the first frame is SETTINGS with a limit of one stream") func firstSettings() {
    var wire = Wire(greets: false)
    let frames = wire.read()
    #expect(frames[0].type == Kind.settings)
    #expect(Array(frames[0].payload.prefix(6)) == [0, 3, 0, 0, 0, 1])
    #expect(wire.transport.limit == 1)
  }

  @Test func aRequestComesOutWhole() {
    var wire = Wire()
    wire.request(1, body: #"{"a":1}"#)
    #expect(wire.requests == [1])
    #expect(wire.body() == (#"{"a":1}"#, 7))
    #expect(wire.transport.counts.streams == 1)
    #expect(wire.transport.violations == [])
    wire.respond(1)
    let frames = wire.read()
    #expect(frames.map(\.type) == [Kind.headers])
    #expect(frames[0].flags == HTTP2.Flag.endHeaders | HTTP2.Flag.endStream)
    #expect(wire.transport.inFlight.isEmpty)
  }

  @Test func bytesMayComeOneByOne() {
    var whole = Wire(greets: false)
    var bytes = ByteBuffer(bytes: HTTP2.preface)
    bytes.writeSettings([(.enablePush, 0)])
    let block = whole.block(Wire.head)
    bytes.writeFrameHead(
      length: block.count, type: Kind.headers, flags: HTTP2.Flag.endHeaders, stream: 1)
    bytes.writeBytes(block)
    bytes.writeFrameHead(length: 2, type: Kind.data, flags: HTTP2.Flag.endStream, stream: 1)
    bytes.writeString("{}")
    var input = ByteBuffer()
    for byte in bytes.readableBytesView {
      input.writeInteger(byte)
      whole.receive(&input)
    }
    #expect(whole.requests == [1])
    #expect(whole.transport.violations == [])
    #expect(input.readableBytes == 0)
  }

  @Test("R1: what is not HTTP/2 is closed without an answer") func notHTTP2() {
    var wire = Wire(greets: false)
    _ = wire.read()
    wire.send(Array("POST /3/device/aa HTTP/1.1\r\n\r\n".utf8))
    #expect(wire.transport.isDead)
    #expect(wire.transport.violations == [.notHTTP2])
    #expect(wire.read() == [])
  }

  @Test("R3: a second stream while one is allowed ends the connection") func tooManyStreams() {
    var wire = Wire()
    wire.request(1)
    wire.request(3)
    #expect(wire.transport.violations == [.tooManyStreams])
    #expect(wire.transport.isDead)
    let last = wire.read().last
    #expect(last?.type == Kind.goAway)
    #expect(last?.debug == "Maximum active streams violated for this endpoint.")
    #expect(wire.requests == [1])
    // Before our SETTINGS are confirmed, too.
    wire = Wire(greets: false)
    wire.send(HTTP2.preface)
    wire.settings([])
    for stream in [1, 3] as [UInt32] { wire.request(stream) }
    #expect(wire.transport.violations == [.tooManyStreams])
  }

  @Test("R3: with the tolerant switch an early stream is refused, a late one is not forgiven")
  func earlyStreams() {
    var wire = Wire({ $0.earlyStreams = true }, greets: false)
    wire.send(HTTP2.preface)
    wire.settings([])
    wire.request(1)
    wire.request(3)
    #expect(!wire.transport.isDead)
    #expect(wire.read().last?.type == Kind.resetStream)
    wire.acknowledge()
    wire.request(5)
    #expect(wire.transport.isDead)
  }

  @Test("R3: a higher limit counts at once, a lower one when it is confirmed") func limitChanges() {
    var wire = Wire()
    wire.transport.announce(limit: 3)
    #expect(wire.transport.limit == 3)
    wire.acknowledge()
    wire.transport.announce(limit: 1)
    #expect(wire.transport.limit == 3)
    #expect(wire.transport.limitAnnounced == 1)
    for stream in [1, 3, 5] as [UInt32] { wire.request(stream) }
    #expect(wire.transport.violations == [])
    wire.acknowledge()
    #expect(wire.transport.limit == 1)
    // Open streams may finish; a new one may not begin.
    wire.respond(1)
    wire.respond(3)
    #expect(!wire.transport.isDead)
    wire.request(7)
    #expect(wire.transport.violations == [.tooManyStreams])
  }

  @Test("R3: answered streams make room") func room() {
    var wire = Wire()
    for stream in stride(from: UInt32(1), to: 200, by: 2) {
      wire.exchange(stream, APNsResponse(.badTopic))
    }
    #expect(wire.transport.violations == [])
    #expect(wire.requests.count == 100)
    #expect(wire.transport.counts.streamsInFlightMax == 1)
  }

  @Test("R28: flips of the limit end where they began") func flips() {
    for (before, times) in [(1, 5), (7, 4), (7, 5), (1, 0)] {
      var wire = Wire()
      if before > 1 { wire.transport.announce(limit: before) }
      _ = wire.read()
      wire.transport.flipSettings(times)
      #expect(wire.read().count >= times)
      #expect(wire.transport.limitAnnounced == before)
    }
  }

  @Test("R5: PING is answered with its own bytes and counted") func ping() {
    var wire = Wire()
    wire.frame(Kind.ping, 0, 0, [1, 2, 3, 4, 5, 6, 7, 8])
    #expect(
      wire.read() == [
        .init(type: Kind.ping, flags: HTTP2.Flag.ack, stream: 0, payload: [1, 2, 3, 4, 5, 6, 7, 8])
      ])
    wire.frame(Kind.ping, HTTP2.Flag.ack, 0, Array(repeating: 0, count: 8))
    #expect(wire.read() == [])
    #expect(wire.transport.counts.pings == 1)
  }

  @Test("R6: PRIORITY is counted, as a frame and in HEADERS; PUSH_PROMISE ends the connection")
  func priorityAndPush() {
    var wire = Wire()
    wire.frame(Kind.priority, 0, 3, [0, 0, 0, 0, 16])
    #expect(wire.transport.violations == [.priorityFrame])
    let block = wire.block(Wire.head)
    wire.frame(
      Kind.headers, HTTP2.Flag.endHeaders | HTTP2.Flag.endStream | HTTP2.Flag.priority, 1,
      [0, 0, 0, 0, 16] + block)
    #expect(wire.transport.violations == [.priorityFrame, .priorityFrame])
    #expect(wire.requests == [1])
    wire.frame(Kind.pushPromise, HTTP2.Flag.endHeaders, 1, [0, 0, 0, 2])
    #expect(wire.transport.violations.last == .pushPromise)
    #expect(wire.transport.isDead)
  }

  @Test("R6: a stream that the client gives up is counted, and no mistake") func clientReset() {
    var wire = Wire()
    wire.request(1)
    wire.frame(Kind.resetStream, 0, 1, [0, 0, 0, 8])
    #expect(wire.events.last == .abandoned(1))
    #expect(wire.transport.counts.abandoned == 1)
    #expect(wire.transport.violations == [])
    wire.respond(1)
    #expect(wire.read() == [])
  }

  @Test("R6: more bytes than the window has end the connection") func windowOverrun() {
    var wire = Wire({ $0.connectionWindow = 65535 })
    wire.frame(Kind.headers, HTTP2.Flag.endHeaders, 1, wire.block(Wire.head))
    let chunk = [UInt8](repeating: 0x20, count: 16384)
    // Answered after the second, since no push is that large; the rest is dropped, but counted.
    for _ in 0..<2 { wire.frame(Kind.data, 0, 1, chunk) }
    #expect(wire.requests == [1])
    #expect(wire.body().1 == 32768)
    #expect(wire.body().0.utf8.count == 5121)
    wire.respond(1, APNsResponse(.payloadTooLarge))
    #expect(wire.read().map(\.type).suffix(3) == [Kind.headers, Kind.data, Kind.resetStream])
    wire.frame(Kind.data, HTTP2.Flag.endStream, 1, chunk)
    #expect(!wire.transport.isDead)
    wire.transport.announce(limit: 10)
    for stream in stride(from: UInt32(3), to: 13, by: 2) where !wire.transport.isDead {
      wire.frame(Kind.headers, HTTP2.Flag.endHeaders, stream, wire.block(Wire.head))
    }
    #expect(!wire.transport.isDead)
    // One stream's own window: 65535, never refilled.
    for _ in 0..<5 { wire.frame(Kind.data, 0, 3, chunk) }
    #expect(wire.transport.violations == [.windowOverrun])
    #expect(wire.read().last?.code == HTTP2.ErrorCode.flowControl.rawValue)
  }

  @Test func theConnectionsWindowIsRefilled() {
    var wire = Wire({ $0.connectionWindow = 65535 })
    for stream in stride(from: UInt32(1), to: 400, by: 2) {
      wire.exchange(stream, body: String(repeating: " ", count: 1000))
    }
    #expect(wire.requests.count == 200)
    #expect(wire.transport.violations == [])
  }
}
