internal import CallTelemetry
internal import NIOCore
internal import NIOHTTP1

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
