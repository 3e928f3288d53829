internal import CallTelemetry
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import ServiceLifecycle

/// `/metrics` and `/healthz` of a node that listens to no devices.
struct MetricsServer: Service {
  var host: String
  var port: Int
  var metrics: MetricsRegistry
  var logger: Logger

  func run() async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    do {
      let channel = try await bootstrap(group).bind(host: host, port: port).get()
      let bound = channel.localAddress?.port ?? port
      logger.info(
        "metrics are served", metadata: .keys([.host: "\(host)", .port: "\(bound)"]))
      // A node that hands its shards over is still worth watching: this ends with the group.
      try await gracefulShutdown()
      try await channel.close().get()
    } catch is CancellationError {
    } catch {
      try? await group.shutdownGracefully()
      throw error
    }
    try await group.shutdownGracefully()
  }

  private func bootstrap(_ group: MultiThreadedEventLoopGroup) -> ServerBootstrap {
    let metrics = metrics
    return ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 64)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.configureHTTPServerPipeline()
          try channel.pipeline.syncOperations.addHandlers(
            IdleStateHandler(allTimeout: .seconds(10)), MetricsHandler(metrics: metrics))
        }
      }
  }
}

/// Answers one request and closes.
private final class MetricsHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let metrics: MetricsRegistry
  private var head: HTTPRequestHead?

  init(metrics: MetricsRegistry) { self.metrics = metrics }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head): self.head = head
    case .body: break
    case .end:
      guard let head else { return }
      self.head = nil
      answer(head, context)
    }
  }

  private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
    let path = head.uri.prefix { $0 != "?" }
    let (status, text): (HTTPResponseStatus, String) =
      switch (head.method, path) {
      case (.GET, "/metrics"): (.ok, metrics.render())
      case (.GET, "/healthz"): (.ok, "{\"status\":\"ok\"}\n")
      case (_, "/metrics"), (_, "/healthz"): (.methodNotAllowed, "Only GET.\n")
      default: (.notFound, "Here are /metrics and /healthz.\n")
      }
    let body = context.channel.allocator.buffer(string: text)
    let headers = HTTPHeaders([
      ("content-type", path == "/healthz" ? "application/json" : "text/plain; version=0.0.4"),
      ("content-length", "\(body.readableBytes)"), ("connection", "close"),
    ])
    let response = HTTPResponseHead(version: head.version, status: status, headers: headers)
    context.write(wrapOutboundOut(.head(response)), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
    let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
    context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in
      bound.value.close(promise: nil)
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if event is IdleStateHandler.IdleStateEvent { context.close(promise: nil) }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}
