import NIOCore
import NIOHTTP1
import NIOPosix

/// Asks a node over HTTP whether it is ready.
package enum ReadyProbe {
  /// The status of `GET path`, or nothing where nobody answers within a second.
  package static func status(host: String, port: Int, path: String = "/readyz") async -> Int? {
    let group = MultiThreadedEventLoopGroup.singleton
    let answer = group.next().makePromise(of: Int.self)
    let bootstrap = ClientBootstrap(group: answer.futureResult.eventLoop)
      .connectTimeout(.seconds(1))
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHTTPClientHandlers()
          try channel.pipeline.syncOperations.addHandler(
            Handler(host: "\(host):\(port)", path: path, answer: answer))
        }
      }
    do {
      _ = try await bootstrap.connect(host: host, port: port).get()
    } catch {
      answer.fail(error)
    }
    return try? await answer.futureResult.get()
  }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart
    private let host: String
    private let path: String
    private let answer: EventLoopPromise<Int>
    private var deadline: Scheduled<Void>?

    init(host: String, path: String, answer: EventLoopPromise<Int>) {
      self.host = host
      self.path = path
      self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
      let head = HTTPRequestHead(
        version: .http1_1, method: .GET, uri: path,
        headers: ["host": host, "connection": "close"])
      context.write(wrapOutboundOut(.head(head)), promise: nil)
      context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
      deadline = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
        context.close(promise: nil)
      }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      if case .head(let head) = unwrapInboundIn(data) {
        answer.succeed(Int(head.status.code))
        context.close(promise: nil)
      }
    }

    func channelInactive(context: ChannelHandlerContext) {
      deadline?.cancel()
      answer.fail(ChannelError.eof)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      answer.fail(error)
      context.close(promise: nil)
    }
  }
}
