import CallCore
package import CallWire
package import NIOCore

/// One device's WebSocket: a single channel handler that does the handshake, reads and writes
/// frames, and answers pings. It needs no task and one small buffer, so that one process can hold
/// tens of thousands.
package final class DeviceConnection: ChannelInboundHandler, DeviceLink {
  package typealias InboundIn = ByteBuffer
  package typealias OutboundOut = ByteBuffer

  private enum Phase { case connecting, handshaking, open, closed }

  /// The largest message of a server, in bytes: a description and candidates fit with room to
  /// spare.
  static let messageMax = 4 << 20
  static let handshakeMax = 8192
  /// Limit of bytes that wait for the socket. Policy at the limit: the connection is closed.
  static let writeBufferMax = 1 << 20

  private let edge: EdgeAddress
  private let codec: DeviceCodec
  private let handshake: WebSocketHandshake
  /// Masks need not be secret: they protect proxies from scripts in browsers (RFC 6455, 10.3).
  private var masks: SplitMix64
  private var reader = WebSocketClientReader(messageMax: messageMax)
  private weak var delegate: (any DeviceLinkDelegate)?
  private var context: ChannelHandlerContext?
  private var phase = Phase.connecting
  /// The beginning of an incomplete frame.
  private var unread: ByteBuffer?
  private var unsent: ByteBuffer?
  private var inFlightBytes = 0

  package init(
    edge: EdgeAddress, codec: DeviceCodec, delegate: any DeviceLinkDelegate, seed: UInt64
  ) {
    self.edge = edge
    self.codec = codec
    self.delegate = delegate
    var masks = SplitMix64(seed: seed)
    var nonce: [UInt8] = []
    for _ in 0..<2 {
      withUnsafeBytes(of: masks.next()) { nonce.append(contentsOf: $0) }
    }
    self.handshake = WebSocketHandshake(nonce: nonce, subprotocol: codec.subprotocol)
    self.masks = masks
  }

  // MARK: DeviceLink

  package func send(_ frame: ClientFrame) {
    guard phase == .open else { return }
    write(codec == .json ? .text : .binary, codec.encode(frame))
  }

  package func flush() {
    guard let context, let buffer = unsent, buffer.readableBytes > 0 else { return }
    unsent = nil
    let count = buffer.readableBytes
    inFlightBytes += count
    guard inFlightBytes <= Self.writeBufferMax else { return fail(.writeBufferFull) }
    let loopBound = NIOLoopBound(self, eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(buffer)).whenComplete { _ in
      loopBound.value.inFlightBytes -= count
    }
  }

  package func close(abruptly: Bool) {
    delegate = nil
    guard phase != .closed else { return }
    if !abruptly, phase == .open {
      // 1001, going away: the session may resume on another connection. A normal closure is what
      // `detach` announces.
      write(.close, [0x03, 0xE9])
      flush()
    }
    phase = .closed
    if abruptly { context?.closeAbruptly() } else { context?.close(promise: nil) }
  }

  // MARK: Channel

  package func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    if context.channel.isActive { begin(context) }
  }

  package func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  package func channelActive(context: ChannelHandlerContext) { begin(context) }

  package func channelInactive(context: ChannelHandlerContext) { fail(.broken("end of stream")) }

  package func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if phase == .handshaking, let problem = EdgeTrust.problem(error, with: edge) {
      fail(.notTrusted(problem))
    } else {
      fail(.broken(String(describing: error)))
    }
  }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var buffer = unwrapInboundIn(data)
    if var kept = unread {
      kept.writeBuffer(&buffer)
      buffer = kept
      unread = nil
    }
    do throws(LinkClosed) {
      try read(&buffer)
      if buffer.readableBytes > 0 { unread = buffer }
    } catch {
      fail(error)
    }
  }

  package func channelReadComplete(context: ChannelHandlerContext) {
    if phase == .open { delegate?.linkReadCompleted() }
    flush()
  }

  /// The TCP connection could not be made.
  package func connectFailed(_ error: any Error) {
    fail(.connectFailed(EdgeTrust.problem(error, with: edge) ?? String(describing: error)))
  }

  private func begin(_ context: ChannelHandlerContext) {
    guard phase == .connecting else {
      // The owner closed the connection before it was established.
      if phase == .closed { context.close(promise: nil) }
      return
    }
    phase = .handshaking
    unsent = context.channel.allocator.buffer(string: handshake.request(edge))
    flush()
  }

  // MARK: Reading

  private func read(_ buffer: inout ByteBuffer) throws(LinkClosed) {
    if phase == .handshaking { try readHandshake(&buffer) }
    while phase == .open, let event = try reader.next(from: &buffer) {
      switch event {
      case .binary(let payload), .text(let payload): try deliver(payload)
      case .ping(let payload): write(.pong, payload.readableBytesView)
      case .pong: break
      case .close(let code): fail(.closedByPeer(code: code))
      }
    }
  }

  private func readHandshake(_ buffer: inout ByteBuffer) throws(LinkClosed) {
    let view = buffer.readableBytesView
    guard let end = view.firstRange(of: "\r\n\r\n".utf8)?.lowerBound else {
      guard view.count < Self.handshakeMax else { throw .handshakeFailed("the answer is too long") }
      return
    }
    let response = String(decoding: view[..<end], as: UTF8.self)
    buffer.moveReaderIndex(forwardBy: end - view.startIndex + 4)
    if let why = handshake.refusal(of: response) { throw .handshakeFailed(why) }
    phase = .open
    delegate?.linkOpened()
  }

  private func deliver(_ payload: ByteBuffer) throws(LinkClosed) {
    let read = payload.withUnsafeReadableBytes { codec.serverFrame($0) }
    if let frame = try read.get() { delegate?.linkReceived(frame) }
  }

  // MARK: Writing

  private func write(_ opcode: WebSocketFrameHeader.Opcode, _ payload: some Collection<UInt8>) {
    guard let context else { return }
    if unsent == nil { unsent = context.channel.allocator.buffer(capacity: payload.count + 14) }
    unsent?.writeWebSocketFrame(opcode, payload, mask: UInt32(truncatingIfNeeded: masks.next()))
  }

  private func fail(_ cause: LinkClosed) {
    guard phase != .closed else { return }
    let handshaking = phase == .handshaking
    phase = .closed
    let delegate = self.delegate
    self.delegate = nil
    context?.close(promise: nil)
    if handshaking, case .broken(let what) = cause {
      delegate?.linkClosed(.handshakeFailed(what))
    } else {
      delegate?.linkClosed(cause)
    }
  }
}
