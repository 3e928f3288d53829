package import NIOCore
package import NIOHTTP1

/// How a connection's bytes become HTTP requests, and how much of them is kept meanwhile.
package enum HTTPDecoding {
  /// What waits for the rest of a header, or behind an upgrade. As much as one read brings, and more
  /// than the largest header. Policy: close the connection.
  package static let bufferBytesMax = 65_536

  package static func decoder() -> ByteToMessageHandler<HTTPRequestDecoder> {
    var limits = NIOHTTPDecoderLimitConfiguration()
    limits.maxHeaderFieldSize = 16_384
    limits.maxHeaderListSize = 32_768
    limits.maxHeaderFieldCount = 100
    return ByteToMessageHandler(
      HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes, limitConfiguration: limits),
      maximumBufferSize: bufferBytesMax)
  }
}

/// Stands before the WebSocket until nothing of HTTP is left in the channel.
///
/// The decoder leaves a turn of the event loop later than it is told to, and the parser has its own
/// opinion of whether a request is an upgrade. Where it takes it for none it reads on, and hands over
/// requests, which are nothing that a WebSocket could take: the connection is closed then.
final class UpgradeGuard: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = Any

  private var isBroken = false

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // Bytes are wrapped as `IOData`.
    if !isBroken, unwrapInboundIn(data) is IOData { return context.fireChannelRead(data) }
    isBroken = true
    context.close(promise: nil)
  }
}
