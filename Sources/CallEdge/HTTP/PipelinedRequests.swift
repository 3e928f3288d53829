internal import NIOCore
internal import NIOHTTP1

/// Closes a connection that sends more requests ahead than may wait for their answers.
///
/// Stands between the decoder, which takes apart all that one read brings, and the handler of pipelining,
/// which keeps what comes while an answer is under way.
final class PipelinedRequests: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTPServerRequestPart
  typealias OutboundIn = HTTPServerResponsePart
  typealias OutboundOut = HTTPServerResponsePart

  private let metrics: PeerMetrics
  private let most: Int
  private var waiting = 0
  private var isBroken = false

  init(most: Int, metrics: PeerMetrics) {
    self.most = most
    self.metrics = metrics
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if isBroken { return }
    if case .head = unwrapInboundIn(data) { waiting += 1 }
    guard waiting <= most else {
      isBroken = true
      metrics.limit(.pipelinedRequests)
      return context.close(promise: nil)
    }
    context.fireChannelRead(data)
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if case .end = unwrapOutboundIn(data) { waiting -= 1 }
    context.write(data, promise: promise)
  }
}
