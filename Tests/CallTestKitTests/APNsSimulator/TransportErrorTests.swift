import CallTestKit
import Testing

private typealias Kind = HTTP2.FrameType

/// Errors that end a connection or a stream (R8).
struct TransportErrorTests {
  @Test("R8: a header list over 8000 bytes ends the connection") func headerList() {
    var wire = Wire()
    wire.request(1, Wire.head + [("x", String(repeating: "y", count: 7600))])
    #expect(wire.requests == [1])
    wire.respond(1)
    wire.request(3, Wire.head + [("x", String(repeating: "y", count: 8000))])
    #expect(wire.transport.violations == [.headerListTooLarge])
    #expect(wire.transport.isDead)
  }

  @Test("R8: framing errors end the connection with GOAWAY") func framingErrors() {
    let cases: [(String, UInt32, (inout Wire) -> Void)] = [
      ("frame too large", 6, { $0.send([0, 0x40, 1, 0, 0, 0, 0, 0, 1]) }),
      ("headers on stream 0", 1, { $0.frame(Kind.headers, 4, 0, []) }),
      ("even stream", 1, { $0.frame(Kind.headers, 4, 2, []) }),
      ("data on an idle stream", 1, { $0.frame(Kind.data, 1, 1, []) }),
      ("continuation alone", 1, { $0.frame(Kind.continuation, 4, 1, []) }),
      ("ping of 7 bytes", 6, { $0.frame(Kind.ping, 0, 0, [1, 2, 3, 4, 5, 6, 7]) }),
      ("settings of 5 bytes", 6, { $0.frame(Kind.settings, 0, 0, [1, 2, 3, 4, 5]) }),
      ("settings on a stream", 1, { $0.frame(Kind.settings, 0, 1, []) }),
      ("confirmation of nothing", 1, { $0.acknowledge() }),
      ("window update of 0", 1, { $0.frame(Kind.windowUpdate, 0, 0, [0, 0, 0, 0]) }),
      ("window too large", 3, { $0.frame(Kind.windowUpdate, 0, 0, [0x7F, 0xFF, 0xFF, 0xFF]) }),
      ("reset of an idle stream", 1, { $0.frame(Kind.resetStream, 0, 5, [0, 0, 0, 8]) }),
      ("HPACK index 0", 9, { $0.frame(Kind.headers, 5, 1, [0x80]) }),
      ("HPACK without a table", 9, { $0.frame(Kind.headers, 5, 1, [0xFF, 0xFF, 0xFF, 0x0F]) }),
      ("padding over the end", 1, { $0.frame(Kind.headers, 0xD, 1, [9, 1]) }),
    ]
    for (name, code, act) in cases {
      var wire = Wire()
      act(&wire)
      #expect(wire.transport.isDead, "\(name)")
      #expect(wire.transport.violations == [.protocolError], "\(name)")
      #expect(wire.read().last?.code == code, "\(name)")
      // Further input is ignored.
      wire.request(9)
      #expect(wire.requests == [], "\(name)")
    }
  }

  @Test("R8: the first frame must be SETTINGS") func firstFrame() {
    var wire = Wire(greets: false)
    wire.send(HTTP2.preface)
    wire.frame(Kind.ping, 0, 0, Array(repeating: 0, count: 8))
    #expect(wire.transport.isDead)
  }

  @Test("R8: headers may go on in CONTINUATION, with nothing in between, and not without end")
  func continuation() {
    var wire = Wire()
    let block = wire.block(Wire.head)
    wire.frame(Kind.headers, HTTP2.Flag.endStream, 1, Array(block.prefix(3)))
    wire.frame(Kind.continuation, 0, 1, Array(block[3..<7]))
    wire.frame(Kind.continuation, HTTP2.Flag.endHeaders, 1, Array(block[7...]))
    #expect(wire.requests == [1])
    var broken = Wire()
    broken.frame(Kind.headers, HTTP2.Flag.endStream, 1, Array(block.prefix(3)))
    broken.frame(Kind.ping, 0, 0, Array(repeating: 0, count: 8))
    #expect(broken.transport.isDead)
    var flood = Wire()
    flood.frame(Kind.headers, HTTP2.Flag.endStream, 1, [])
    for _ in 0..<20 where !flood.transport.isDead {
      flood.frame(Kind.continuation, 0, 1, [UInt8](repeating: 0, count: 1000))
    }
    #expect(flood.transport.violations == [.headerListTooLarge])
  }

  @Test func malformedRequestsEndTheirStreamAlone() {
    let wrong: [[(String, String)]] = [
      Array(Wire.head.dropFirst()), [Wire.head[0]] + Wire.head, Wire.head + [("Apns-Id", "x")],
      [("apns-id", "x")] + Wire.head, Wire.head + [("connection", "close")],
      Wire.head + [(":status", "200")], Wire.head + [("te", "gzip")],
      Wire.head + [("content-length", "3")],
      [Wire.head[0], (":scheme", "http"), Wire.head[2]],
    ]
    var wire = Wire()
    var stream: UInt32 = 1
    for fields in wrong {
      wire.request(stream, fields)
      #expect(wire.read().last?.type == Kind.resetStream, "\(fields)")
      stream += 2
    }
    #expect(wire.requests == [])
    #expect(wire.transport.violations.count == wrong.count)
    wire.request(stream, Wire.head + [("te", "trailers"), ("content-length", "2")])
    #expect(wire.requests == [stream])
    #expect(!wire.transport.isDead)
  }
}
