internal import CallTelemetry
package import NIOCore
package import NIOHTTP1

/// The HTTP decoder of a connection, and its limits.
package enum HTTPDecoding {
  /// Bytes that may wait for the rest of a header, or follow an upgrade: as many as one read brings, and more
  /// than the largest header has. Policy: close the connection.
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

/// Stands before the WebSocket handler until no handler of HTTP is left in the channel.
///
/// The decoder leaves the channel a turn of the event loop after it is removed, and its parser decides by
/// itself whether a request is an upgrade. If it decides that it is not, it passes on further
/// requests, which a WebSocket cannot take: the connection is closed then.
final class UpgradeGuard: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = Any

  private var isBroken = false

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // The decoder passes on bytes as `IOData`.
    if !isBroken, unwrapInboundIn(data) is IOData { return context.fireChannelRead(data) }
    isBroken = true
    context.close(promise: nil)
  }
}

/// Counts a connection's requests that were read and are not answered, and closes the connection where they
/// are too many.
///
/// Stands between the decoder, which decodes all requests that one read brings, and NIO's handler of
/// pipelining, which keeps requests while an earlier one is being answered.
final class PipeliningLimitHandler: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTPServerRequestPart
  typealias OutboundIn = HTTPServerResponsePart
  typealias OutboundOut = HTTPServerResponsePart

  private let shared: EdgeShared
  private var waiting = 0
  private var isBroken = false

  init(_ shared: EdgeShared) { self.shared = shared }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if isBroken { return }
    if case .head = unwrapInboundIn(data) {
      guard waiting < shared.gate.limits.pipelinedRequestsMax else {
        isBroken = true
        shared.metrics.count(limit: .pipelinedRequests)
        return context.close(promise: nil)
      }
      note(1)
    }
    context.fireChannelRead(data)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if case .end = unwrapOutboundIn(data) { note(-1) }
    context.write(data, promise: promise)
  }

  func handlerRemoved(context: ChannelHandlerContext) { note(-waiting) }

  private func note(_ change: Int) {
    waiting += change
    shared.metrics.requestsWaiting.add(Int64(change))
  }
}
