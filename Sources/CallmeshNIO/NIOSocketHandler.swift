internal import CallClient
internal import CallWire
internal import CallmeshClient
internal import NIOCore

/// One WebSocket: does the handshake, reads and writes messages, and answers pings. Lives on its channel's loop.
final class NIOSocketHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private enum Phase { case connecting, handshaking, open, closed }

  static let handshakeMax = 8192
  /// Bytes that wait for the socket. Policy at the limit: the connection is given up.
  static let writeBufferMax = 1 << 20

  private let edge: EdgeAddress
  private let handshake: WebSocketHandshake
  private let report: @Sendable (SocketEvent) -> Void
  private var reader = WebSocketClientReader(messageMax: messageBytesMax)
  private var context: ChannelHandlerContext?
  private var phase = Phase.connecting
  /// The beginning of an incomplete frame.
  private var unread = ByteBuffer()
  private var inFlightBytes = 0

  init(
    _ edge: EdgeAddress, _ subprotocol: String, _ report: @escaping @Sendable (SocketEvent) -> Void
  ) {
    (self.edge, self.report) = (edge, report)
    let nonce = (0..<16).map { _ in UInt8.random(in: 0...255) }
    handshake = WebSocketHandshake(nonce: nonce, subprotocol: subprotocol)
  }

  // MARK: The app's end

  func send(_ message: SocketMessage) {
    guard phase == .open else { return }
    switch message {
    case .text(let text): write(.text, text.utf8)
    case .binary(let bytes): write(.binary, bytes)
    }
  }

  func close(code: UInt16?) {
    guard phase != .closed else { return }
    if let code, phase == .open { write(.close, [UInt8(code >> 8), UInt8(code & 0xFF)]) }
    phase = .closed
    if code == nil { context?.closeAbruptly() } else { context?.close(promise: nil) }
  }

  func connectFailed(_ error: any Error) {
    guard phase != .closed else { return }
    phase = .closed
    report(.closed(end(of: error)))
  }

  // MARK: Channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    if context.channel.isActive { begin(context) }
  }

  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelActive(context: ChannelHandlerContext) { begin(context) }

  func channelInactive(context: ChannelHandlerContext) { fail(.failed("end of stream")) }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { fail(end(of: error)) }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    unread.writeBuffer(&bytes)
    do throws(LinkClosed) {
      try read()
      unread.discardReadBytes()
    } catch {
      fail(.failed("\(error)"))
    }
  }

  private func begin(_ context: ChannelHandlerContext) {
    guard phase == .connecting else {
      // The app closed the socket before it was there.
      if phase == .closed { context.close(promise: nil) }
      return
    }
    phase = .handshaking
    context.writeAndFlush(
      wrapOutboundOut(ByteBuffer(string: handshake.request(edge))), promise: nil)
  }

  private func read() throws(LinkClosed) {
    if phase == .handshaking { try readHandshake() }
    while phase == .open, let event = try reader.next(from: &unread) {
      switch event {
      case .text(let text): report(.message(.text(String(buffer: text))))
      case .binary(let binary): report(.message(.binary(Array(buffer: binary))))
      case .ping(let payload): write(.pong, payload.readableBytesView)
      case .pong: break
      case .close(let code): fail(.code(code))
      }
    }
  }

  private func readHandshake() throws(LinkClosed) {
    let view = unread.readableBytesView
    guard let end = view.firstRange(of: "\r\n\r\n".utf8)?.lowerBound else {
      guard view.count < Self.handshakeMax else { throw .handshakeFailed("the answer is too long") }
      return
    }
    let response = String(decoding: view[..<end], as: UTF8.self)
    unread.moveReaderIndex(forwardBy: end - view.startIndex + 4)
    if let why = handshake.refusal(of: response) { throw .handshakeFailed(why) }
    phase = .open
    report(.opened)
  }

  private func write(_ opcode: WebSocketFrameHeader.Opcode, _ payload: some Collection<UInt8>) {
    guard let context else { return }
    var buffer = context.channel.allocator.buffer(capacity: payload.count + 14)
    buffer.writeWebSocketFrame(opcode, payload, mask: .random(in: 0 ... .max))
    let count = buffer.readableBytes
    inFlightBytes += count
    guard inFlightBytes <= Self.writeBufferMax else {
      return fail(.failed("the other side does not read"))
    }
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(buffer)).whenComplete { _ in
      bound.value.inFlightBytes -= count
    }
  }

  private func fail(_ end: SocketEnd) {
    guard phase != .closed else { return }
    phase = .closed
    context?.close(promise: nil)
    report(.closed(end))
  }

  private func end(of error: any Error) -> SocketEnd {
    if let problem = EdgeTrust.problem(error, with: edge) { return .notTrusted(problem) }
    return .failed("\(error)")
  }
}
