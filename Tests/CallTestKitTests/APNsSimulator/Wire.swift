import CallTestKit
import NIOCore
import NIOHPACK

/// A client of one connection that writes its frames by hand.
struct Wire {
  var transport: APNsTransport
  var events: [APNsTransport.Event] = []
  var encoder = HPACKEncoder(allocator: ByteBufferAllocator())
  var out = ByteBuffer()

  struct Frame: Equatable {
    var type: HTTP2.FrameType?
    var flags: UInt8
    var stream: UInt32
    var payload: [UInt8]
    /// The first word of GOAWAY, RST_STREAM and WINDOW_UPDATE; `code` is the second.
    var word: UInt32 { payload.prefix(4).reduce(0) { $0 << 8 | UInt32($1) } }
    var code: UInt32 { payload.dropFirst(4).prefix(4).reduce(0) { $0 << 8 | UInt32($1) } }
    var debug: String { String(decoding: payload.dropFirst(8), as: UTF8.self) }
  }

  init(_ change: (inout APNsTransport.Options) -> Void = { _ in }, greets: Bool = true) {
    var options = APNsTransport.Options()
    change(&options)
    transport = APNsTransport(options)
    transport.start()
    if greets {
      send(HTTP2.preface)
      settings([])
      acknowledge()
      _ = read()
    }
  }

  mutating func receive(_ input: inout ByteBuffer) {
    transport.receive(&input)
    events += transport.drainEvents()
  }

  mutating func send(_ bytes: [UInt8]) {
    var buffer = ByteBuffer(bytes: bytes)
    receive(&buffer)
  }

  mutating func frame(
    _ type: HTTP2.FrameType, _ flags: UInt8 = 0, _ stream: UInt32 = 0, _ payload: [UInt8]
  ) {
    var buffer = ByteBuffer()
    buffer.writeFrameHead(length: payload.count, type: type, flags: flags, stream: stream)
    buffer.writeBytes(payload)
    receive(&buffer)
  }

  mutating func settings(_ settings: [(HTTP2.Setting, UInt32)]) {
    var buffer = ByteBuffer()
    buffer.writeSettings(settings)
    receive(&buffer)
  }

  mutating func acknowledge() { frame(.settings, HTTP2.Flag.ack, 0, []) }

  mutating func block(_ fields: [(String, String)]) -> [UInt8] {
    var buffer = ByteBuffer()
    try! encoder.encode(headers: HPACKHeaders(fields), to: &buffer)
    return Array(buffer.readableBytesView)
  }

  static let head = [
    (":method", "POST"), (":scheme", "https"), (":path", "/3/device/aa"), (":authority", "x"),
  ]

  mutating func request(_ stream: UInt32, _ fields: [(String, String)] = head, body: String? = "{}")
  {
    let ends = body == nil ? HTTP2.Flag.endStream : 0
    frame(.headers, HTTP2.Flag.endHeaders | ends, stream, block(fields))
    if let body { frame(.data, HTTP2.Flag.endStream, stream, Array(body.utf8)) }
  }

  mutating func respond(_ stream: UInt32, _ response: APNsResponse = .accepted) {
    transport.respond(to: stream, response, apnsID: "id")
  }

  /// A request that is answered at once.
  mutating func exchange(
    _ stream: UInt32, _ response: APNsResponse = .accepted, body: String = "{}"
  ) {
    request(stream, body: body)
    respond(stream, response)
  }

  /// All frames that were sent since the last call.
  mutating func read() -> [Frame] {
    var frames: [Frame] = []
    while let head = HTTP2.peekHead(transport.output) {
      transport.output.moveReaderIndex(forwardBy: 9)
      let payload = transport.output.readBytes(length: head.length) ?? []
      frames.append(
        Frame(type: head.type, flags: head.flags, stream: head.stream, payload: payload))
    }
    return frames
  }

  var requests: [UInt32] {
    events.compactMap { if case .request(let stream, _) = $0 { stream } else { nil } }
  }
  func body(_ place: Int = 0) -> (String, Int) {
    guard case .request(_, let request) = events[place] else { return ("", -1) }
    return (String(decoding: request.body, as: UTF8.self), request.bodyLength)
  }
}
