internal import CallCore
package import NIOCore
package import NIOHPACK
package import NIOHTTP2
internal import NIOTLS

/// An event of a connection, for its pool.
package enum APNsChannelEvent: Sendable, Equatable {
  /// TLS is up, and the peer chose HTTP/2.
  case connected
  /// Bytes were received.
  case read
  /// - Parameter maxStreams: nil if the frame does not set it.
  case settings(maxStreams: Int?)
  case response(stream: UInt32, APNsResponse)
  case reset(stream: UInt32, isRefused: Bool)
  case goAway(last: UInt32, isError: Bool, reason: String)
  /// The reason, in a few words. No further event follows.
  case ended(String)
}

/// The last handler of a connection, behind TLS and `NIOHTTP2Handler`: turns frames into events. It uses no channels
/// for streams, since a request is two frames and an answer one or two.
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
  /// Whether TLS is up.
  private var isUp: Bool
  private var hasEnded = false
  /// Whether `read` was reported for this burst of bytes.
  private var hasReportedRead = false
  /// Bytes of bodies for which no WINDOW_UPDATE was sent yet.
  private var consumed = 0
  private static let windowUpdateBytes = 16_384

  /// - Parameter isUp: whether HTTP/2 is in the pipeline already; else the handler adds it after TLS.
  package init(isUp: Bool = false, onEvent: @escaping (APNsChannelEvent) -> Void) {
    self.isUp = isUp
    self.onEvent = onEvent
  }

  // MARK: Out

  /// Writes a request. The next `flush` sends it.
  package func send(stream: UInt32, headers: HPACKHeaders, payload: [UInt8]) {
    guard let context else { return }
    let id = HTTP2StreamID(Int(stream))
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.assumeIsolated().whenFailure { [weak self] error in
      // HTTP/2 refused to write it. A lost channel is reported elsewhere.
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
    control(.ping(HTTP2PingData(withInteger: 0), ack: false))
  }

  /// Sends a frame of the connection itself.
  private func control(_ payload: HTTP2Frame.FramePayload) {
    let frame = HTTP2Frame(streamID: .rootStream, payload: payload)
    context?.writeAndFlush(wrapOutboundOut(frame), promise: nil)
  }

  package func flush() { context?.flush() }

  /// Sends GOAWAY and closes. No event follows.
  package func close() {
    hasEnded = true
    guard let context else { return }
    if isUp, context.channel.isActive {
      control(.goAway(lastStreamID: .rootStream, errorCode: .noError, opaqueData: nil))
    }
    context.close(promise: nil)
  }

  // MARK: In

  package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  package func handlerRemoved(context: ChannelHandlerContext) {
    // If the connection could not be opened, the connect attempt reports why.
    if isUp { end("the connection was closed") }
    self.context = nil
  }

  package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case .handshakeCompleted(let chosen)? = event as? TLSUserEvent, !isUp, !hasEnded {
      guard chosen == "h2" else {
        end("the peer does not choose h2 (ALPN)")
        return context.close(promise: nil)
      }
      do {
        try context.pipeline.syncOperations.addHandler(APNsHTTP2.handler(), position: .before(self))
        isUp = true
        onEvent(.connected)
      } catch {
        end("\(type(of: error))")
        context.close(promise: nil)
      }
    }
    context.fireUserInboundEventTriggered(event)
  }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !hasEnded else { return }
    if !hasReportedRead {
      hasReportedRead = true
      onEvent(.read)
    }
    let frame = unwrapInboundIn(data)
    let stream = UInt32(truncatingIfNeeded: Int(frame.streamID))
    switch frame.payload {
    case .headers(let headers): received(headers, on: stream)
    case .data(let data): received(data, on: stream)
    case .settings(.settings(let settings)):
      // If the frame sets it several times, the last one counts.
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
      break  // NIOHTTP2Handler has handled these.
    }
  }

  package func channelReadComplete(context: ChannelHandlerContext) {
    hasReportedRead = false
    context.fireChannelReadComplete()
  }

  private func received(_ headers: HTTP2Frame.FramePayload.Headers, on stream: UInt32) {
    if answers[stream] != nil {  // Trailers.
      if headers.endStream { finish(stream) }
      return
    }
    let status = headers.headers.first(name: ":status").flatMap { Int($0) } ?? 0
    if headers.endStream {
      onEvent(.response(stream: stream, APNsResponse(status: status)))
    } else if status >= 200 {  // After 1xx the final response follows.
      answers[stream] = PartialAnswer(status: status)
    }
  }

  private func received(_ data: HTTP2Frame.FramePayload.Data, on stream: UInt32) {
    consumed += data.data.readableBytes + (data.paddingBytes.map { $0 + 1 } ?? 0)
    if consumed >= Self.windowUpdateBytes {
      control(.windowUpdate(windowSizeIncrement: consumed))
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

  /// After any error HTTP/2 delivers nothing more, often without closing the channel (seen with swift-nio-http2 1.46).
  package func errorCaught(context: ChannelHandlerContext, error: any Error) {
    end(isUp ? "\(type(of: error))" : "TLS: \(error)")
    context.close(promise: nil)
  }

  package func channelInactive(context: ChannelHandlerContext) {
    end(isUp ? "the connection was closed" : "closed before TLS was up")
    context.fireChannelInactive()
  }

  private func end(_ why: String) {
    guard !hasEnded else { return }
    hasEnded = true
    answers = [:]
    onEvent(.ended(why))
  }
}
