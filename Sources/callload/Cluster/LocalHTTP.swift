import NIOCore
import NIOHTTP1
import NIOPosix

/// Small questions to processes of this machine, over HTTP.
package enum LocalHTTP {
  package struct Answer: Sendable {
    package var status: Int
    package var body: [UInt8]
  }

  static let bodyMax = 4 << 20

  /// The answer to `GET path` on 127.0.0.1, or nothing where nobody answers within a second.
  package static func get(port: Int, _ path: String) async -> Answer? {
    let group = MultiThreadedEventLoopGroup.singleton
    let answer = group.next().makePromise(of: Answer.self)
    let bootstrap = ClientBootstrap(group: answer.futureResult.eventLoop)
      .connectTimeout(.seconds(1))
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHTTPClientHandlers()
          try channel.pipeline.syncOperations.addHandler(
            Handler(host: "127.0.0.1:\(port)", path: path, answer: answer))
        }
      }
    do {
      _ = try await bootstrap.connect(host: "127.0.0.1", port: port).get()
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
    private let answer: EventLoopPromise<Answer>
    private var found = Answer(status: 0, body: [])
    private var deadline: Scheduled<Void>?

    init(host: String, path: String, answer: EventLoopPromise<Answer>) {
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
      switch unwrapInboundIn(data) {
      case .head(let head): found.status = Int(head.status.code)
      case .body(let part):
        if found.body.count + part.readableBytes <= LocalHTTP.bodyMax {
          found.body.append(contentsOf: part.readableBytesView)
        }
      case .end:
        answer.succeed(found)
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
