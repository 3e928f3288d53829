internal import CallCore
internal import CallWire
internal import NIOCore
internal import NIOHTTP1

/// The handler of a refused connection. It sends an HTTP response with the reason, without reading a request, and
/// closes the connection.
final class RefusedConnection: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let answer: HTTPAnswer

  init(_ answer: HTTPAnswer) { self.answer = answer }

  func handlerAdded(context: ChannelHandlerContext) {
    if context.channel.isActive { context.close(with: answer) }
  }

  func channelActive(context: ChannelHandlerContext) { context.close(with: answer) }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}

extension ChannelHandlerContext {
  /// Writes an answer as bytes and closes the connection. The peer has a second to close its side.
  func close(with answer: HTTPAnswer) {
    writeAndFlush(NIOAny(ByteBuffer(bytes: answer.bytes)), promise: nil)
    close(mode: .output, promise: nil)
    let channel = channel
    eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) { channel.close(promise: nil) }
  }
}

extension HTTPAnswer {
  /// The answer to a refused connection; nil where there is none.
  init?(_ refusal: ConnectionRefusal, _ limits: PeerLimits) {
    switch refusal {
    case .all: self.init(.busy("At most \(limits.connectionsMax) connections to this edge."))
    case .address: self.init(CallError.tooManyConnections(limits))
    case .unattached: self.init(.busy("Too many connections on which no device has attached."))
    case .descriptors: return nil
    }
  }

  /// The response as bytes, for a connection that is closed after it.
  var bytes: [UInt8] {
    let reason = HTTPResponseStatus(statusCode: status).reasonPhrase
    var lines = ["HTTP/1.1 \(status) \(reason)"]
    lines.append("content-type: \(contentType)")
    lines.append("content-length: \(body.count)")
    lines += headers.map { "\($0.0): \($0.1)" }
    lines.append("connection: close")
    return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body
  }
}

extension CallError {
  /// The edge has as many connections as it may.
  fileprivate static func busy(_ message: String) -> CallError {
    CallError(.overloaded, message, retryAfterMilliseconds: 1000)
  }

  /// The address has as many connections as it may.
  static func tooManyConnections(_ limits: PeerLimits) -> CallError {
    CallError(
      .rateLimited, "At most \(limits.connectionsPerAddress) connections from one address.",
      retryAfterMilliseconds: 5000)
  }
}
