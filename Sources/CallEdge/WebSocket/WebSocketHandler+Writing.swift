internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import NIOCore

/// Writes frames, and ends the connection.
extension WebSocketHandler {
  func send(_ frame: ServerFrame) {
    loop.metrics.framesOut.increment()
    write(encoded(frame, leavesSoon: true))
  }

  private func encoded(_ frame: ServerFrame, leavesSoon: Bool) -> ByteBuffer {
    let codec = session.codec
    var buffer = ByteBuffer()
    codec.withEncoded(frame) { buffer = framed(codec.opcode, $0, leavesSoon: leavesSoon) }
    return buffer
  }

  /// - Parameter leavesSoon: with what the loop flushes next.
  private func framed(
    _ opcode: WebSocketFrameHeader.Opcode, _ payload: some Collection<UInt8>, leavesSoon: Bool
  ) -> ByteBuffer {
    guard leavesSoon, !isSlow else {
      return WebSocketWriter.frame(opcode, payload, allocator: loop.frames.allocator)
    }
    let header = WebSocketFrameHeader(opcode, payloadBytes: payload.count)
    return loop.frames.filled(bytes: header.frameBytesMax) {
      WebSocketWriter.write(header, payload, into: &$0)
    }
  }

  /// Writes a frame that leaves with the next one, or with the loop's next lazy flush.
  func sendLazily(_ frame: ServerFrame) {
    guard let context else { return }
    loop.metrics.framesOut.increment()
    context.write(wrapOutboundOut(encoded(frame, leavesSoon: false)), promise: nil)
    guard !needsFlush, !needsLazyFlush else { return }
    needsLazyFlush = true
    loop.flushLazily(self)
  }

  func write(_ opcode: WebSocketFrameHeader.Opcode, _ payload: some Collection<UInt8>) {
    write(framed(opcode, payload, leavesSoon: true))
  }

  private func write(_ buffer: ByteBuffer, promise: EventLoopPromise<Void>? = nil) {
    guard let context else { return }
    context.write(wrapOutboundOut(buffer), promise: promise)
    if isSlow { checkWaitingBytes() }
    guard !needsFlush else { return }
    needsFlush = true
    // `channelReadComplete` flushes the data that is written while reading.
    if !isReading { loop.flushSoon(self) }
  }

  func flush() {
    needsFlush = false
    needsLazyFlush = false
    context?.flush()
  }

  /// Answers a ping. Where the peer does not take what is written, only the latest ping gets a pong.
  func pong(_ payload: some Collection<UInt8>) {
    guard let context else { return }
    guard pongsWaiting < min(loop.shared.gate.limits.pongsWaitingMax, 255) else {
      loop.metrics.count(limit: .pongsWaiting)
      latestPing = Array(payload)
      return
    }
    pongsWaiting += 1
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.assumeIsolated().whenComplete { _ in
      self.pongsWaiting -= 1
      if !self.session.isClosing, let latest = self.latestPing.take() { self.pong(latest) }
    }
    write(
      WebSocketWriter.frame(.pong, payload, allocator: loop.frames.allocator), promise: written)
  }

  // MARK: What waits for the device

  /// Bytes that the socket has not taken.
  var bytesWaiting: Int {
    (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
  }

  /// Closes the session when more waits for the device than may.
  func checkWaitingBytes() {
    guard !session.isClosing, bytesWaiting > loop.shared.gate.limits.outboundBytesMax else {
      return
    }
    handle { $0.end(.slowConsumer, &$1) }
  }

  // MARK: Closing

  /// Writes a close frame. The session is over for the cluster; the socket waits for the peer's.
  func sendClose(_ reason: CloseReason) {
    guard let context else { return }
    loop.metrics.count(close: reason)
    let written = context.eventLoop.makePromise(of: Void.self)
    // The peer reads the end of the stream after the close frame, whatever it still sends.
    written.futureResult.assumeIsolated().whenSuccess {
      self.context?.close(mode: .output, promise: nil)
    }
    write(WebSocketWriter.close(reason, allocator: loop.frames.allocator), promise: written)
    loop.retire(self)
    endSession()
  }

  /// Closes the socket. What it does not take at once is lost.
  /// - Parameter limit: the one that the peer has reached; it is counted.
  func abort(_ limit: PeerLimit? = nil) {
    if let limit { loop.metrics.count(limit: limit) }
    guard let context else { return }
    flush()
    context.close(promise: nil)
  }

  func socketClosed() {
    loop.remove(self)
    endSession()
  }

  /// Reports the end of the session, once, to the shards that it has sent commands to.
  private func endSession() {
    if isCountedAttached {
      isCountedAttached = false
      loop.metrics.sessions.add(-1)
    }
    userShard = -1
    guard let end = session.takeEnd() else { return }
    countLiveCalls()
    loop.remember(end, session: number)
    loop.shared.logger.debug("session ends", metadata: logKeys(end.user, end.device))
    let sender = (end.user, end.device)
    loop.submit(
      unanswered: command(
        0, from: sender, callee: end.user, .sessionClosed(graceful: end.isGraceful)))
    for (callee, calls) in end.calls {
      loop.submit(unanswered: command(0, from: sender, callee: callee, .callerGone(calls)))
    }
  }
}

/// Builds the frames that a server sends: whole and unmasked.
enum WebSocketWriter {
  static func frame(
    _ opcode: WebSocketFrameHeader.Opcode, _ payload: some Collection<UInt8>,
    allocator: ByteBufferAllocator
  ) -> ByteBuffer {
    let header = WebSocketFrameHeader(opcode, payloadBytes: payload.count)
    var buffer = allocator.buffer(capacity: header.frameBytesMax)
    write(header, payload, into: &buffer)
    return buffer
  }

  static func write(
    _ header: WebSocketFrameHeader, _ payload: some Collection<UInt8>, into buffer: inout ByteBuffer
  ) {
    buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: WebSocketFrameHeader.unmaskedBytesMax)
    {
      header.write(into: $0)
    }
    buffer.writeBytes(payload)
  }

  /// A close frame with the reason's code and text.
  static func close(_ reason: CloseReason, allocator: ByteBufferAllocator) -> ByteBuffer {
    let code = reason.rawValue
    return frame(
      .close, [UInt8(code >> 8), UInt8(code & 0xff)] + Array(reason.text.utf8),
      allocator: allocator)
  }
}

extension WebSocketFrameHeader {
  /// The most bytes of the whole frame.
  fileprivate var frameBytesMax: Int { payloadBytes + Self.unmaskedBytesMax }
}

extension DeviceCodec {
  /// The opcode of the messages that hold this codec's frames.
  var opcode: WebSocketFrameHeader.Opcode {
    switch self {
    case .protobuf: .binary
    case .json: .text
    }
  }
}
