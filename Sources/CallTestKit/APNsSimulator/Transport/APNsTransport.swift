package import NIOCore
internal import NIOHPACK

/// The server's end of one HTTP/2 connection: bytes in, requests out, bytes back (R2 to R8). Does no
/// I/O and knows no time, so a test writes frames by hand and reads what comes.
///
/// As strict as RFC 9113 allows, and stricter where Apple is: see `limit`.
package struct APNsTransport {
  package struct Options: Sendable {
    /// Bytes that may be under way on the connection; refilled as they come.
    package var connectionWindow = 1 << 20
    package var headerListMax = 8000
    package var earlyStreams = false
    package init() {}
  }

  package enum Event: Equatable {
    case request(UInt32, APNsRequest)
    /// The client gave this stream up.
    case abandoned(UInt32)
  }

  /// What is counted without being a mistake.
  package struct Counts: Sendable, Equatable {
    package var streams = 0
    package var streamsInFlightMax = 0
    package var pings = 0
    /// RST_STREAM of the client: what a sender does at a deadline, and should do seldom.
    package var abandoned = 0
    /// Streams that came after our GOAWAY: the client cannot have known yet.
    package var streamsBehindGoAway = 0
    package var goAwaysReceived = 0
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
    /// What is still to be sent of a response's body, one DATA frame each if the windows allow.
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

  /// A header block that is not complete yet.
  struct OpenBlock {
    var stream: UInt32
    var endsStream: Bool
    var bytes: ByteBuffer
  }

  let options: Options
  /// What goes to the client next.
  package var output = ByteBuffer()
  package internal(set) var counts = Counts()
  package internal(set) var violations: [APNsViolation] = []
  /// Nothing more is read; what is written goes out, then the connection is closed.
  package internal(set) var isDead = false

  var hasPreface = false
  var hasSettings = false
  var decoder: HPACKDecoder
  /// Without fields that enter the dynamic table, which the client may limit.
  var encoder = HPACKEncoder(allocator: ByteBufferAllocator(), useHuffmanEncoding: false)
  var block: OpenBlock?

  var streams: [UInt32: Stream] = [:]
  var lastStream: UInt32 = 0
  /// Streams that we ended before the client did: what it still sends there is dropped.
  var discarding: Set<UInt32> = []
  static let discardingMax = 1000

  /// The limit of streams that the client confirmed last; at first the one of our first SETTINGS,
  /// for APNs allows one stream from the very beginning.
  var limitConfirmed = 1
  /// Those it has not confirmed, oldest first; nil: SETTINGS without a limit.
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

  /// The streams that may be open now. A lower limit counts from its confirmation on, a higher one at
  /// once: the client may have seen it.
  package var limit: Int {
    limitsSent.reduce(limitConfirmed) { max($0, $1 ?? 0) }
  }

  /// The limit that was announced last.
  package var limitAnnounced: Int { limitsSent.last { $0 != nil } as? Int ?? limitConfirmed }

  package var streamsInFlight: Int { streams.count }
  package var inFlight: [UInt32] { streams.keys.sorted() }
  package func isOpen(_ stream: UInt32) -> Bool { streams[stream] != nil }

  /// Everything promised is out, or nothing is owed any more.
  package var isFinished: Bool {
    if isDead { return true }
    guard closesWhenDone, let last = goAwayLast else { return false }
    return !streams.keys.contains { $0 <= last }
  }

  /// The first SETTINGS: one stream, for a start.
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

  /// Takes what is complete of the bytes and leaves the rest.
  package mutating func receive(_ input: inout ByteBuffer, into events: inout [Event]) {
    do throws(Failure) {
      while !isDead, try receiveNext(&input, &events) {}
    } catch {
      fail(error)
    }
  }

  /// - Returns: false if the bytes do not suffice.
  private mutating func receiveNext(
    _ input: inout ByteBuffer, _ events: inout [Event]
  ) throws(Failure) -> Bool {
    guard hasPreface else { return readPreface(&input) }
    guard let head = HTTP2.peekHead(input) else { return false }
    guard head.length <= HTTP2.frameBytesMax else { throw Failure(.frameSize) }
    guard input.readableBytes >= 9 + head.length else { return false }
    input.moveReaderIndex(forwardBy: 9)
    guard var payload = input.readSlice(length: head.length) else { return false }
    try receive(head, &payload, &events)
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

  private mutating func receive(
    _ head: HTTP2.FrameHead, _ payload: inout ByteBuffer, _ events: inout [Event]
  ) throws(Failure) {
    if !hasSettings {
      guard head.type == .settings, !head.has(HTTP2.Flag.ack) else { throw Failure(.protocol) }
      hasSettings = true
    }
    // Between HEADERS and its last CONTINUATION nothing else may come.
    if let block, head.type != .continuation || head.stream != block.stream {
      throw Failure(.protocol)
    }
    switch head.type {
    case .data: try receiveData(head, &payload, &events)
    case .headers: try receiveHeaders(head, &payload, &events)
    case .continuation: try receiveContinuation(head, &payload, &events)
    case .priority: try receivePriority(head)
    case .resetStream: try receiveReset(head, &events)
    case .settings: try receiveSettings(head, &payload)
    case .pushPromise: throw Failure(.protocol, .pushPromise)
    case .ping: try receivePing(head, &payload)
    case .goAway: try receiveGoAway(head)
    case .windowUpdate: try receiveWindowUpdate(head, &payload)
    case nil: break
    }
  }

  /// Sends GOAWAY and stops.
  mutating func fail(_ failure: Failure) {
    if let violation = failure.violation { violations.append(violation) }
    output.writeGoAway(last: lastStream, code: failure.code.rawValue, debug: failure.debug)
    isDead = true
  }

  /// What was noted since the last call.
  package mutating func takeViolations() -> [APNsViolation] {
    if violations.isEmpty { return [] }
    defer { violations.removeAll() }
    return violations
  }
}
