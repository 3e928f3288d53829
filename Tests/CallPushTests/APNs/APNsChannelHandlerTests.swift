import CallCore
import CallPush
import NIOCore
import NIOEmbedded
import NIOHPACK
import NIOHTTP2
import Testing

@Suite("APNs: frames in, events out")
struct APNsChannelHandlerTests {
  private final class Rig {
    let channel = EmbeddedChannel()
    private(set) var events: [APNsChannelEvent] = []
    private(set) lazy var handler = APNsChannelHandler(isUp: true) { [unowned self] in
      events.append($0)
    }

    init() throws {
      try channel.pipeline.syncOperations.addHandler(handler)
      channel.pipeline.fireChannelActive()
    }

    func receive(_ payload: HTTP2Frame.FramePayload, stream: Int = 0) {
      channel.pipeline.fireChannelRead(
        HTTP2Frame(streamID: HTTP2StreamID(stream), payload: payload))
    }

    func headers(_ status: String, stream: Int, end: Bool) {
      receive(.headers(.init(headers: [":status": status], endStream: end)), stream: stream)
    }

    func data(_ text: String, stream: Int, end: Bool, padding: Int? = nil) {
      receive(
        .data(
          .init(
            data: .byteBuffer(ByteBuffer(string: text)), endStream: end, paddingBytes: padding)),
        stream: stream)
    }

    /// All events except `read`.
    var told: [APNsChannelEvent] { events.filter { $0 != .read } }

    func written() throws -> [HTTP2Frame] {
      var out: [HTTP2Frame] = []
      while let frame = try channel.readOutbound(as: HTTP2Frame.self) { out.append(frame) }
      return out
    }
  }

  @Test("a 200 in one frame; a refusal in three; with an empty end; behind a 1xx; with trailers")
  func responses() throws {
    let rig = try Rig()
    rig.headers("200", stream: 1, end: true)
    rig.headers("410", stream: 3, end: false)
    rig.data(#"{"reason":"Unreg"#, stream: 3, end: false)
    rig.data(#"istered","timestamp":1700000000000}"#, stream: 3, end: true, padding: 9)
    rig.headers("200", stream: 5, end: false)
    rig.data("", stream: 5, end: true)
    rig.headers("103", stream: 7, end: false)
    rig.headers("200", stream: 7, end: true)
    rig.headers("400", stream: 9, end: false)
    rig.data(#"{"reason":"BadTopic"}"#, stream: 9, end: false)
    rig.receive(.headers(.init(headers: ["x": "y"], endStream: true)), stream: 9)
    let gone = Timestamp(microseconds: 1_700_000_000_000_000)
    #expect(
      rig.told == [
        .response(stream: 1, APNsResponse(status: 200)),
        .response(
          stream: 3, APNsResponse(status: 410, reason: "Unregistered", timestamp: gone)),
        .response(stream: 5, APNsResponse(status: 200)),
        .response(stream: 7, APNsResponse(status: 200)),
        .response(stream: 9, APNsResponse(status: 400, reason: "BadTopic")),
      ])
  }

  @Test("GOAWAY with its reason, resets, SETTINGS") func control() throws {
    let rig = try Rig()
    rig.receive(.settings(.settings([HTTP2Setting(parameter: .maxConcurrentStreams, value: 1)])))
    rig.receive(.settings(.settings([])))
    rig.receive(.settings(.ack))
    rig.receive(.ping(HTTP2PingData(), ack: true))
    rig.receive(.rstStream(.refusedStream), stream: 1)
    rig.receive(.rstStream(.cancel), stream: 3)
    rig.receive(
      .goAway(
        lastStreamID: .maxID, errorCode: .noError,
        opaqueData: ByteBuffer(string: #"{"reason":"IdleTimeout"}"#)))
    rig.receive(
      .goAway(
        lastStreamID: 7, errorCode: .enhanceYourCalm, opaqueData: ByteBuffer(string: "go\naway")))
    #expect(
      rig.told == [
        .settings(maxStreams: 1), .settings(maxStreams: nil),
        .reset(stream: 1, isRefused: true), .reset(stream: 3, isRefused: false),
        .goAway(last: 0x7fff_ffff, isError: false, reason: "IdleTimeout"),
        .goAway(last: 7, isError: true, reason: ""),
      ])
  }

  @Test("bytes are told of once a burst") func reads() throws {
    let rig = try Rig()
    for _ in 0..<2 {
      rig.receive(.ping(HTTP2PingData(), ack: true))
      rig.receive(.ping(HTTP2PingData(), ack: true))
      rig.channel.pipeline.fireChannelReadComplete()
    }
    #expect(rig.events == [.read, .read])
  }

  @Test("a body without end takes no memory without end, and the window opens again")
  func hugeBody() throws {
    let rig = try Rig()
    rig.headers("400", stream: 1, end: false)
    let chunk = String(repeating: "x", count: 10_000)
    for _ in 0..<10 { rig.data(chunk, stream: 1, end: false) }
    rig.data("", stream: 1, end: true)
    #expect(rig.told == [.response(stream: 1, APNsResponse(status: 400))])
    let increments = try rig.written().compactMap { frame -> Int? in
      guard case .windowUpdate(let increment) = frame.payload else { return nil }
      #expect(frame.streamID == .rootStream)
      return increment
    }
    #expect(increments.reduce(0, +) == 100_000)
  }

  @Test("any error ends the connection, and is told of once") func errors() throws {
    struct Broken: Error {}
    let rig = try Rig()
    _ = try rig.channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    #expect(rig.channel.isActive)
    rig.channel.pipeline.fireErrorCaught(Broken())
    rig.channel.pipeline.fireErrorCaught(Broken())
    rig.channel.embeddedEventLoop.run()
    #expect(rig.told == [.ended("Broken")])
    #expect(!rig.channel.isActive)
    rig.headers("200", stream: 1, end: true)
    #expect(rig.told.count == 1)
  }

  @Test("a request is HEADERS and DATA; one that HTTP/2 will not write comes back as refused")
  func requests() throws {
    let rig = try Rig()
    rig.handler.send(stream: 1, headers: [":method": "POST"], payload: [1, 2, 3])
    rig.handler.flush()
    let frames = try rig.written()
    try #require(frames.count == 2)
    guard case .headers(let headers) = frames[0].payload, case .data(let data) = frames[1].payload
    else {
      Issue.record("other frames")
      return
    }
    #expect(!headers.endStream)
    #expect(headers.priorityData == nil)
    #expect(data.endStream && data.data == .byteBuffer(ByteBuffer(bytes: [1, 2, 3])))
    #expect(frames.map(\.streamID) == [1, 1])

    final class Refuses: ChannelOutboundHandler {
      typealias OutboundIn = HTTP2Frame
      func write(
        context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
      ) {
        promise?.fail(NIOHTTP2Errors.createdStreamAfterGoaway())
      }
    }
    try rig.channel.pipeline.syncOperations.addHandler(Refuses(), position: .first)
    rig.handler.send(stream: 3, headers: [":method": "POST"], payload: [1])
    #expect(rig.told == [.reset(stream: 3, isRefused: true)])
  }

  @Test("closing says goodbye, and nothing is told of it") func closing() throws {
    let rig = try Rig()
    _ = try rig.channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    rig.handler.close()
    rig.channel.embeddedEventLoop.run()
    let frames = try rig.written()
    guard case .goAway(_, .noError, _)? = frames.first?.payload else {
      Issue.record("no GOAWAY")
      return
    }
    #expect(rig.told.isEmpty)
  }

  /// NIOHTTP2 would end it at 200 control frames, or 200 resets, in 30 seconds.
  @Test("with real HTTP/2 in between: storms of SETTINGS, PINGs and resets do not end it")
  func storms() throws {
    let client = EmbeddedChannel()
    var events: [APNsChannelEvent] = []
    let handler = APNsChannelHandler(isUp: true) { events.append($0) }
    try client.pipeline.syncOperations.addHandlers([APNsHTTP2.handler(), handler])
    _ = try client.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    func receive(type: UInt8, stream: UInt32 = 0, _ payload: [UInt8]) throws {
      var frame = ByteBuffer(bytes: [0, 0, UInt8(payload.count), type, 0])
      frame.writeInteger(stream)
      frame.writeBytes(payload)
      try client.writeInbound(frame)
    }
    try receive(type: 4, [0, 3, 0, 0, 0, 100])
    for count in 1...1000 {
      try receive(type: 4, [0, 3, 0, 0, 0, UInt8(1 + count % 100)])
      try receive(type: 6, Array(repeating: 7, count: 8))
    }
    var writer = APNsHeaderWriter(authority: "127.0.0.1")
    let request = try APNsRequest(APNsRequestTests.message(), voipKeep: .seconds(5))
    for index in 0..<1000 {
      let stream = UInt32(index * 2 + 1)
      handler.send(
        stream: stream,
        headers: writer.headers(request, bearer: "bearer x", now: APNsRequestTests.now),
        payload: request.payload)
      handler.flush()
      try receive(type: 3, stream: stream, [0, 0, 0, 7])
    }
    let resets = events.count { if case .reset(_, isRefused: true) = $0 { true } else { false } }
    #expect(resets == 1000)
    #expect(client.isActive)
    #expect(!events.contains { if case .ended = $0 { true } else { false } })
    _ = try client.finish(acceptAlreadyClosed: true)
  }
}
