internal import CallCore
package import NIOCore
package import NIOHPACK
package import NIOHTTP2

/// What a connection tells its pool.
package enum APNsChannelEvent: Sendable, Equatable {
  /// TLS is up, and the peer chose HTTP/2.
  case connected
  /// Bytes have come.
  case read
  /// - Parameter maxStreams: nil where the frame does not say.
  case settings(maxStreams: Int?)
  case response(stream: UInt32, APNsResponse)
  case reset(stream: UInt32, isRefused: Bool)
  case goAway(last: UInt32, isError: Bool, reason: String)
  /// A word or two; no more events follow.
  case ended(String)
}

/// The end of a connection's pipeline, behind `NIOHTTP2Handler`: frames in, events out. No channels
/// for streams: a request is two frames, an answer one or two.
package final class APNsChannelHandler: ChannelInboundHandler {
  package typealias InboundIn = HTTP2Frame
  package typealias OutboundOut = HTTP2Frame

  private struct PartialAnswer {
    var status: Int
    var body: [UInt8] = []
  }

  private let onEvent: (APNsChannelEvent) -> Void
  private var context: ChannelHandlerContext?
  private var answers: [UInt32: PartialAnswer] = [:]
  private var hasEnded = false
  /// Whether this burst of bytes was told of.
  private var hasTold = false
  /// Bytes of bodies that the peer may not yet send again.
  private var consumed = 0
  private static let windowUpdateBytes = 16_384

  package init(onEvent: @escaping (APNsChannelEvent) -> Void) { self.onEvent = onEvent }

  // MARK: Out

  /// Writes a request; it leaves with the next `flush`.
  package func send(
    stream: UInt32, headers: HPACKHeaders, payload: [UInt8]
  ) {
    guard let context else { return }
    let id = HTTP2StreamID(Int(stream))
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.assumeIsolated().whenFailure { [weak self] error in
      // HTTP/2 refused to write it. That a channel was lost is told of elsewhere.
      guard error is any NIOHTTP2Error else { return }
      self?.onEvent(.reset(stream: stream, isRefused: true))
    }
    context.write(
      wrapOutboundOut(HTTP2Frame(streamID: id, payload: .headers(.init(headers: headers)))),
      promise: written)
    var body = context.channel.allocator.buffer(capacity: payload.count)
    body.writeBytes(payload)
    context.write(
      wrapOutboundOut(
        HTTP2Frame(
          streamID: id, payload: .data(.init(data: .byteBuffer(body), endStream: true)))),
      promise: nil)
  }

  package func ping() {
    guard let context else { return }
    let frame = HTTP2Frame(
      streamID: .rootStream, payload: .ping(HTTP2PingData(withInteger: 0), ack: false))
    context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
  }

  package func flush() { context?.flush() }

  /// Says goodbye and closes. Nothing is told of what comes then.
  package func close() {
    hasEnded = true
    guard let context else { return }
    if context.channel.isActive {
      let frame = HTTP2Frame(
        streamID: .rootStream,
        payload: .goAway(lastStreamID: .rootStream, errorCode: .noError, opaqueData: nil))
      context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
    }
    context.close(promise: nil)
  }

  // MARK: In

  package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  package func handlerRemoved(context: ChannelHandlerContext) {
    end("the connection was closed")
    self.context = nil
  }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !hasEnded else { return }
    if !hasTold {
      hasTold = true
      onEvent(.read)
    }
    let frame = unwrapInboundIn(data)
    let stream = UInt32(truncatingIfNeeded: Int(frame.streamID))
    switch frame.payload {
    case .headers(let headers): received(headers, on: stream)
    case .data(let data): received(data, on: stream)
    case .settings(.settings(let settings)):
      // The last one counts, should there be several.
      let maxStreams = settings.last { $0.parameter == .maxConcurrentStreams }?.value
      onEvent(.settings(maxStreams: maxStreams))
    case .rstStream(let code):
      answers[stream] = nil
      onEvent(.reset(stream: stream, isRefused: code == .refusedStream))
    case .goAway(let last, let code, let data):
      let body = APNsAnswerBody(data.map { Array($0.readableBytesView) } ?? [])
      onEvent(
        .goAway(
          last: UInt32(truncatingIfNeeded: Int(last)), isError: code != .noError,
          reason: body.reason))
    case .settings, .ping, .priority, .pushPromise, .windowUpdate, .alternativeService, .origin:
      break  // The handler before us has done what there is to do.
    }
  }

  package func channelReadComplete(context: ChannelHandlerContext) {
    hasTold = false
    context.fireChannelReadComplete()
  }

  private func received(_ headers: HTTP2Frame.FramePayload.Headers, on stream: UInt32) {
    if answers[stream] != nil {  // Trailers.
      if headers.endStream { finish(stream) }
      return
    }
    let status = headers.headers.first(name: ":status").flatMap { Int($0) } ?? 0
    guard status >= 200 else {  // 1xx announces another.
      if headers.endStream { onEvent(.response(stream: stream, APNsResponse(status: status))) }
      return
    }
    if headers.endStream {
      onEvent(.response(stream: stream, APNsResponse(status: status)))
    } else {
      answers[stream] = PartialAnswer(status: status)
    }
  }

  private func received(_ data: HTTP2Frame.FramePayload.Data, on stream: UInt32) {
    consumed += data.data.readableBytes + (data.paddingBytes.map { $0 + 1 } ?? 0)
    if consumed >= Self.windowUpdateBytes, let context {
      let frame = HTTP2Frame(
        streamID: .rootStream, payload: .windowUpdate(windowSizeIncrement: consumed))
      context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
      consumed = 0
    }
    if case .byteBuffer(let bytes) = data.data, var answer = answers[stream] {
      let room = APNsAnswerBody.bytesMax + 1 - answer.body.count
      answers[stream] = nil  // So that the body is not copied.
      answer.body.append(contentsOf: bytes.readableBytesView.prefix(max(0, room)))
      answers[stream] = answer
    }
    if data.endStream { finish(stream) }
  }

  private func finish(_ stream: UInt32) {
    guard let answer = answers.removeValue(forKey: stream) else { return }
    let body = APNsAnswerBody(answer.body)
    onEvent(
      .response(
        stream: stream,
        APNsResponse(status: answer.status, reason: body.reason, timestamp: body.timestamp)))
  }

  /// Any error here leaves HTTP/2 in a state from which nothing comes any more, often without the
  /// channel being closed (seen with swift-nio-http2 1.46).
  package func errorCaught(context: ChannelHandlerContext, error: any Error) {
    end("\(type(of: error))")
    context.close(promise: nil)
  }

  package func channelInactive(context: ChannelHandlerContext) {
    end("the connection was closed")
    context.fireChannelInactive()
  }

  private func end(_ why: String) {
    guard !hasEnded else { return }
    hasEnded = true
    answers = [:]
    onEvent(.ended(why))
  }
}
