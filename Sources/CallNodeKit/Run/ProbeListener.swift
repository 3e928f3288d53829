internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// What is answered to one request of an operator's tools.
struct ProbeAnswer: Sendable {
  var status: HTTPResponseStatus = .ok
  var contentType = "application/json"
  var text: String
  /// Seconds; nil: not said.
  var retryAfter: Int?
}

/// A small HTTP server beside a node's work: one thread, one request a connection.
final class ProbeListener: Sendable {
  typealias Answers = @Sendable (_ method: HTTPMethod, _ path: String) -> ProbeAnswer

  private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  private let channel: EventLoopFuture<any Channel>

  /// Begins to listen; never blocks.
  init(host: String, port: Int, answers: @escaping Answers) {
    channel = ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 64)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.configureHTTPServerPipeline()
          try channel.pipeline.syncOperations.addHandlers(
            IdleStateHandler(allTimeout: .seconds(10)), ProbeHandler(answers: answers))
        }
      }
      .bind(host: host, port: port)
  }

  /// The port that it listens on.
  /// - Throws: why it does not listen.
  var boundPort: Int? {
    get async throws { try await channel.get().localAddress?.port }
  }

  /// Tells where it turns out that the port cannot be listened on.
  func onFailure(_ handler: @escaping @Sendable (any Error) -> Void) {
    channel.whenFailure(handler)
  }

  /// Listens no more, and ends the connections that are open.
  func close() async {
    try? await channel.get().close().get()
    try? await group.shutdownGracefully()
  }
}

/// Answers one request and closes.
private final class ProbeHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let answers: ProbeListener.Answers
  private var head: HTTPRequestHead?

  init(answers: @escaping ProbeListener.Answers) { self.answers = answers }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head): self.head = head
    case .body: break
    case .end:
      guard let head else { return }
      self.head = nil
      respond(to: head, context)
    }
  }

  private func respond(to head: HTTPRequestHead, _ context: ChannelHandlerContext) {
    let answer = answers(head.method, String(head.uri.prefix { $0 != "?" }))
    let body = context.channel.allocator.buffer(string: answer.text)
    var headers = HTTPHeaders([
      ("content-type", answer.contentType), ("content-length", "\(body.readableBytes)"),
      ("connection", "close"),
    ])
    if let seconds = answer.retryAfter { headers.add(name: "retry-after", value: "\(seconds)") }
    let response = HTTPResponseHead(version: head.version, status: answer.status, headers: headers)
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
