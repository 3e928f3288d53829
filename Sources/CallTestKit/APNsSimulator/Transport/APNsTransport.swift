package import NIOCore
internal import NIOHPACK

/// The server's end of one HTTP/2 connection (R2 to R8): turns received bytes into requests, and answers into bytes.
/// Does no I/O and uses no clock, so tests write and read frames directly.
///
/// As strict as RFC 9113 allows, and stricter where Apple is stricter: see `limit`.
package struct APNsTransport {
  package struct Options: Sendable {
    /// The flow control window of the connection, refilled as bytes are received.
    package var connectionWindow = 1 << 20
    package var headerListMax = 8000
    package var earlyStreams = false
    package init() {}
  }

  package enum Event: Equatable {
    case request(UInt32, APNsRequest)
    /// The client reset this stream.
    case abandoned(UInt32)
  }

  /// Counts of events that are no errors.
  package struct Counts: Sendable, Equatable {
    package var streams = 0
    package var streamsInFlightMax = 0
    package var pings = 0
    /// RST_STREAM frames of the client, which a sender should send only at a deadline.
    package var abandoned = 0
    /// Streams that were opened after our GOAWAY, which the client may not have read yet.
    package var streamsBehindGoAway = 0
  }

  struct Stream {
    var fields: [APNsRequest.Field] = []
    var body: [UInt8] = []
    var bodyLength = 0
    var receiveWindow = HTTP2.defaultWindow
    var sendWindow: Int
    /// The client's END_STREAM came.
    var ended = false
    /// It was handed out as a request.
    var isHandedOut = false
    /// The rest of a response's body, one DATA frame each if the windows allow.
    var waiting: [Piece] = []
    var isAnswered = false
  }

  struct Piece {
    var bytes: ArraySlice<UInt8>
    var padding = 0
  }

  /// An error that ends the connection (R8).
  struct Failure: Error {
    var code: HTTP2.ErrorCode
    var violation: APNsViolation?
    var debug: String

    init(
      _ code: HTTP2.ErrorCode, _ violation: APNsViolation? = .protocolError, debug: String = ""
    ) {
      self.code = code
      self.violation = violation
      self.debug = debug
    }
  }

  struct Frame {
    var head: HTTP2.FrameHead
    var payload: ByteBuffer
  }

  /// A header block that is not complete yet.
  struct OpenBlock {
    var stream: UInt32
    var endsStream: Bool
    var bytes: ByteBuffer
  }

  let options: Options
  /// The bytes to send to the client.
  package var output = ByteBuffer()
  package internal(set) var counts = Counts()
  var events: [Event] = []
  package internal(set) var violations: [APNsViolation] = []
  /// Nothing more is read. The connection closes when the output is sent.
  package internal(set) var isDead = false

  var hasPreface = false
  var hasSettings = false
  var decoder: HPACKDecoder
  /// Uses no dynamic table, which the client may limit.
  var encoder = HPACKEncoder(allocator: ByteBufferAllocator(), useHuffmanEncoding: false)
  var block: OpenBlock?

  var streams: [UInt32: Stream] = [:]
  /// The last stream that the client opened.
  package internal(set) var lastStream: UInt32 = 0
  /// Streams that we ended before the client did. Their further frames are dropped.
  var discarding: Set<UInt32> = []
  static let discardingMax = 1000

  /// The limit of streams that the client confirmed last. It begins with that of our first SETTINGS, since APNs allows
  /// one stream from the beginning.
  var limitConfirmed = 1
  /// The unconfirmed limits, oldest first; nil: SETTINGS without a limit.
  var limitsSent: [Int?] = []
  var confirmsOnce = false

  var receiveWindow = HTTP2.defaultWindow
  var receivedSinceUpdate = 0
  var sendWindow = HTTP2.defaultWindow
  var peerInitialWindow = HTTP2.defaultWindow

  /// The last stream that our GOAWAY promises to answer.
  package internal(set) var goAwayLast: UInt32?
  var closesWhenDone = false

  package init(_ options: Options = Options()) {
    self.options = options
    decoder = HPACKDecoder(
      allocator: ByteBufferAllocator(), maxDynamicTableSize: HPACKDecoder.maxDynamicTableSize,
      maxHeaderListSize: options.headerListMax)
  }

  /// The streams that may be open now. A lower limit applies from its confirmation on, a higher one at once, since the
  /// client may have read it.
  package var limit: Int {
    limitsSent.reduce(limitConfirmed) { max($0, $1 ?? 0) }
  }

  /// The limit that was announced last.
  package var limitAnnounced: Int { limitsSent.last { $0 != nil } as? Int ?? limitConfirmed }

  package var inFlight: [UInt32] { streams.keys.sorted() }
  package func isOpen(_ stream: UInt32) -> Bool { streams[stream] != nil }

  /// Whether all promised answers are sent.
  package var isFinished: Bool {
    if isDead { return true }
    guard closesWhenDone, let last = goAwayLast else { return false }
    return !streams.keys.contains { $0 <= last }
  }

  /// Sends the first SETTINGS, which allow one stream.
  package mutating func start() {
    output.writeSettings([
      (.maxConcurrentStreams, 1), (.maxHeaderListSize, UInt32(options.headerListMax)),
    ])
    limitsSent.append(1)
    let more = options.connectionWindow - HTTP2.defaultWindow
    if more > 0 {
      output.writeWindowUpdate(0, by: more)
      receiveWindow += more
    }
  }

  /// Reads the complete frames and leaves the rest.
  package mutating func receive(_ input: inout ByteBuffer) {
    do throws(Failure) {
      while !isDead, try receiveNext(&input) {}
    } catch {
      fail(error)
    }
  }

  /// - Returns: false if the bytes do not suffice.
  private mutating func receiveNext(_ input: inout ByteBuffer) throws(Failure) -> Bool {
    guard hasPreface else { return readPreface(&input) }
    guard let head = HTTP2.peekHead(input) else { return false }
    guard head.length <= HTTP2.frameBytesMax else { throw Failure(.frameSize) }
    guard input.readableBytes >= 9 + head.length else { return false }
    input.moveReaderIndex(forwardBy: 9)
    guard let payload = input.readSlice(length: head.length) else { return false }
    var frame = Frame(head: head, payload: payload)
    try receive(&frame)
    return true
  }

  private mutating func readPreface(_ input: inout ByteBuffer) -> Bool {
    let view = input.readableBytesView.prefix(HTTP2.preface.count)
    guard HTTP2.preface.starts(with: view) else {
      violations.append(.notHTTP2)
      isDead = true
      return false
    }
    guard view.count == HTTP2.preface.count else { return false }
    input.moveReaderIndex(forwardBy: HTTP2.preface.count)
    hasPreface = true
    return true
  }

  private mutating func receive(_ frame: inout Frame) throws(Failure) {
    let head = frame.head
    if !hasSettings {
      guard head.type == .settings, !head.has(HTTP2.Flag.ack) else { throw Failure(.protocol) }
      hasSettings = true
    }
    // No other frame may come between HEADERS and its last CONTINUATION.
    if let block, head.type != .continuation || head.stream != block.stream {
      throw Failure(.protocol)
    }
    switch head.type {
    case .data: try receiveData(&frame)
    case .headers: try receiveHeaders(&frame)
    case .continuation: try receiveContinuation(&frame)
    case .priority: try receivePriority(frame)
    case .resetStream: try receiveReset(frame)
    case .settings: try receiveSettings(&frame)
    case .pushPromise: throw Failure(.protocol, .pushPromise)
    case .ping: try receivePing(&frame)
    case .goAway: try receiveGoAway(frame)
    case .windowUpdate: try receiveWindowUpdate(&frame)
    case nil: break
    }
  }

  /// Sends GOAWAY and stops.
  mutating func fail(_ failure: Failure) {
    if let violation = failure.violation { violations.append(violation) }
    output.writeGoAway(last: lastStream, code: failure.code.rawValue, debug: failure.debug)
    isDead = true
  }

  /// Returns the events since the last call.
  package mutating func drainEvents() -> [Event] {
    defer { events.removeAll() }
    return events
  }

  /// Returns the violations since the last call.
  package mutating func drainViolations() -> [APNsViolation] {
    defer { violations.removeAll() }
    return violations
  }
}
