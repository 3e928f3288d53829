internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NIOCore

/// One device's socket: reads and writes frames, and carries out what its `DeviceSession` decides.
///
/// It is the only handler of its channel, and has no buffer of its own unless a frame has arrived in part:
/// that is what an idle device costs. This file reads frames. The extensions carry out the session's actions and
/// take deliveries (`+Actions`), and write frames and close (`+Writing`).
final class WebSocketHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  let number: UInt64
  let loop: EdgeLoop
  let connection: Connection
  var session: DeviceSession
  var reader: WebSocketServerReader
  var context: ChannelHandlerContext?
  /// The start of a frame that has not arrived in full.
  private var partialFrame: ByteBuffer?
  /// When the bytes that are being read arrived.
  private(set) var readAt = Timestamp(microseconds: 0)
  private(set) var isReading = false
  /// How many bytes were discarded after something that cannot be read; nil: nothing was.
  private var discardedBytes: Int?
  /// How many bytes came while the session was closing.
  private var lingeredBytes = 0
  /// A message that has not arrived in full was reported to the loop.
  private var isUnfinished = false

  // MARK: State of +Actions

  /// The session's decisions that are not carried out yet. Between events there are no actions in it.
  var turn = DeviceSession.Turn(now: Timestamp(microseconds: 0))
  var isPerforming = false
  /// The shard of the session's user; -1 while it is not attached.
  var userShard: Int32 = -1
  /// The app of the session, once it has attached.
  var app: String?
  /// How many of the live calls placed here the app's gate has counted.
  var liveCallsCounted: UInt16 = 0
  var isCountedAttached = false
  /// Its device waits for a notice that another edge is nearer.
  var awaitsNearer = false

  // MARK: State of +Writing

  /// Something was written that leaves at the end of this turn of the event loop.
  var needsFlush = false
  /// Something was written that leaves with the next frame, or after some tenths of a second.
  var needsLazyFlush = false
  /// More waits for the device than the channel's high water mark.
  var isSlow = false
  var pongsWaiting: UInt8 = 0
  /// The payload of the latest ping that is not answered because too many pongs wait.
  var latestPing: [UInt8]?

  init(loop: EdgeLoop, connection: Connection, codec: DeviceCodec, login: Login?) {
    self.loop = loop
    self.connection = connection
    number = loop.makeSessionNumber()
    session = DeviceSession(
      number: number, codec: codec, claims: login?.claims, token: login?.token ?? "",
      rules: loop.shared.rules, now: loop.now)
    let limits = loop.shared.gate.limits
    reader = WebSocketServerReader(
      messageBytesMax: min(limits.unattachedFrameBytesMax, limits.frameBytesMax),
      skippedBytesMax: limits.skippedBytesMax, fragmentsMax: limits.fragmentsMax,
      beginningBytesMax: DeviceCodec.idSearchedBytes)
  }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    loop.add(self)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    socketClosed()
    self.context = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    socketClosed()
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // The socket is broken. The count of closed sessions shows it.
    context.close(promise: nil)
  }

  /// The amount of data that waits for the device has crossed one of the channel's water marks.
  func channelWritabilityChanged(context: ChannelHandlerContext) {
    isSlow = !context.channel.isWritable
    loop.noteSlow(self, isSlow)
    if isSlow { checkWaitingBytes() }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var buffer = unwrapInboundIn(data)
    if let discardedBytes { return discard(buffer.readableBytes, after: discardedBytes) }
    if session.isClosing, !mayLinger(buffer.readableBytes) { return }
    session.receivedBytes()
    let isKept = partialFrame != nil
    if isKept {
      partialFrame?.writeBuffer(&buffer)
      guard let joined = partialFrame.take() else { return }
      buffer = joined
    }
    isReading = true
    var begins = false
    let consumed = buffer.withUnsafeReadableBytes { read($0, begins: &begins) }
    isReading = false
    guard self.context != nil, discardedBytes == nil else { return }
    if isKept, consumed == 0 {
      // Not whole yet. Copied at each read, it would cost as much as it is long.
      partialFrame = buffer
    } else if consumed < buffer.readableBytes {
      buffer.moveReaderIndex(forwardBy: consumed)
      // A copy, so that the channel's read buffer is released.
      var kept = context.channel.allocator.buffer(capacity: buffer.readableBytes)
      kept.writeBuffer(&buffer)
      partialFrame = kept
    }
    noteUnfinished(begins: begins)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if needsFlush { flush() }
  }

  // MARK: Frames

  /// Reads all frames that have arrived in full.
  /// - Parameter begins: set where a message ended, so that what is left belongs to another one.
  /// - Returns: how many bytes were read.
  private func read(_ bytes: UnsafeRawBufferPointer, begins: inout Bool) -> Int {
    var consumed = 0
    readAt = loop.now
    while context != nil {
      switch reader.next(bytes, consumed: &consumed, scratch: loop.scratch) {
      case .needMore: return consumed
      case .nothing: break
      case .message(let kind, let payload):
        begins = true
        received(kind, payload)
      case .ping(let payload): if admitsControlFrame() { pong(payload) }
      case .pong: _ = admitsControlFrame()
      case .close(let code): handle(at: readAt) { $0.receivedClose(code: code, &$1) }
      case .tooLarge(let beginning):
        begins = true
        received(bad: tooLarge(beginning))
      case .violation(let reason):
        stopReading()
        handle(at: readAt) { $0.end(reason, &$1) }
        return bytes.count
      }
    }
    return bytes.count
  }

  private func received(_ kind: WebSocketServerReader.Kind, _ payload: UnsafeRawBufferPointer) {
    if session.isClosing { return }
    loop.metrics.framesIn.increment()
    let expected: WebSocketServerReader.Kind = session.codec == .json ? .text : .binary
    guard kind == expected else {
      return received(bad: FrameError(id: 0, error: CallError(.wrongFrameType)))
    }
    let frame: ClientFrame
    do {
      frame = try session.codec.decodeClient(payload, limits: loop.shared.configuration.limits)
    } catch {
      return received(bad: error, bytes: payload.count)
    }
    handle(at: readAt) { $0.received(frame, bytes: payload.count, &$1) }
  }

  private func received(bad error: FrameError, bytes: Int = 0) {
    handle(at: readAt) { $0.received(bad: error, bytes: bytes, &$1) }
  }

  private func tooLarge(_ beginning: UnsafeRawBufferPointer) -> FrameError {
    var error = session.codec.tooLarge(beginning)
    if !session.isAttached {
      error.error = CallError(
        .frameTooLarge, "Before the attach a frame is at most \(reader.messageBytesMax) bytes.")
    }
    return error
  }

  /// Counts a ping or pong against the session's rate.
  /// - Returns: false where it is one too many.
  private func admitsControlFrame() -> Bool {
    var isAdmitted = false
    handle(at: readAt) { isAdmitted = $0.receivedControl(&$1) }
    if !isAdmitted { loop.metrics.count(limit: .controlFrames) }
    return isAdmitted
  }

  // MARK: Messages that have not arrived in full

  /// Reports to the loop that a message has arrived in part, and when it is complete.
  private func noteUnfinished(begins: Bool) {
    let isPartial = partialFrame != nil || reader.isAmidMessage
    guard isPartial || isUnfinished else { return }
    isUnfinished = isPartial
    let bytes = isPartial ? (partialFrame?.readableBytes ?? 0) + reader.keptBytes : nil
    loop.noteUnfinished(self, bytes: bytes, begins: begins)
  }

  /// A message did not arrive in full in time.
  func messageTimedOut(now: Timestamp) {
    partialFrame = nil
    reader.abandon()
    stopReading()
    handle(at: now) { $0.end(.messageTimeout, &$1) }
  }

  /// From now on all bytes are discarded.
  private func stopReading() {
    discardedBytes = 0
    guard isUnfinished else { return }
    isUnfinished = false
    loop.noteUnfinished(self, bytes: nil, begins: false)
  }

  /// Reads on after the close frame, up to a limit: a socket that is closed with something unread is
  /// reset, and the peer loses the close frame with whatever it had not read.
  private func discard(_ count: Int, after before: Int) {
    discardedBytes = before + count
    if before + count > loop.shared.gate.limits.lingerBytesMax { abort(.lingerBytes) }
  }

  /// A closing session reads only to find the peer's close frame.
  /// - Returns: false where the peer has sent too much meanwhile.
  private func mayLinger(_ count: Int) -> Bool {
    lingeredBytes += count
    if lingeredBytes <= loop.shared.gate.limits.lingerBytesMax { return true }
    abort(.lingerBytes)
    return false
  }
}
