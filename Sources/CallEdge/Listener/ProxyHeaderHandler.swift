internal import NIOCore

/// Takes the PROXY header off a trusted proxy's connection. It stands before all other handlers, TLS as well, and
/// leaves when it has the header. `HTTPHandler` closes a connection on which no request comes in time.
final class ProxyHeaderHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private var kept = ByteBuffer()
  private var isDone = false
  private let bytesMax: Int
  /// Is called once, with the header or the violation. Returns whether the connection goes on.
  private let found: (ProxyHeader.Outcome) -> Bool

  init(bytesMax: Int, found: @escaping (ProxyHeader.Outcome) -> Bool) {
    self.bytesMax = bytesMax
    self.found = found
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if isDone { return context.fireChannelRead(data) }
    var buffer = unwrapInboundIn(data)
    kept.writeBuffer(&buffer)
    let outcome = kept.withUnsafeReadableBytes { ProxyHeader.read($0, bytesMax: bytesMax) }
    if outcome == .needMore { return }
    isDone = true
    guard found(outcome), case .header(let bytes, _) = outcome else {
      kept = ByteBuffer()
      return context.close(promise: nil)
    }
    kept.moveReaderIndex(forwardBy: bytes)
    let rest = kept
    kept = ByteBuffer()
    if rest.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(rest)) }
    context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
  }
}
