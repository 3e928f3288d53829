internal import NIOCore
package import NIOHTTP1
internal import NIOPosix
internal import Synchronization

/// What is answered to one request of an operator's tools.
package struct ProbeAnswer: Sendable {
  package var status: HTTPResponseStatus = .ok
  package var contentType = "application/json"
  package var text: String
  /// Seconds; nil: not said.
  package var retryAfter: Int?
}

/// A small HTTP server beside a node's work: one thread, one request a connection.
package final class ProbeListener: Sendable {
  package typealias Answers = @Sendable (_ method: HTTPMethod, _ path: String) -> ProbeAnswer

  /// Connections at once. Policy: further ones are closed.
  package static let connectionsMax = 32
  /// How long a connection may last, whatever its peer does.
  fileprivate static let connectionTime = TimeAmount.seconds(10)

  private final class Connections: Sendable {
    let count = Atomic(0)
  }
  private struct TooMany: Error {}

  private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  private let channel: EventLoopFuture<any Channel>

  /// Begins to listen; never blocks.
  package init(host: String, port: Int, answers: @escaping Answers) {
    let connections = Connections()
    channel = ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 64)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .serverChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          // At the end of the file descriptors the loop would else try again at once, for ever.
          try channel.pipeline.syncOperations.addHandler(
            AcceptBackoffHandler(shouldForwardIOErrorCaught: false))
        }
      }
      .childChannelInitializer { channel in
        let count = connections.count.add(1, ordering: .relaxed).newValue
        channel.closeFuture.whenComplete { _ in
          connections.count.subtract(1, ordering: .relaxed)
        }
        return channel.eventLoop.makeCompletedFuture {
          guard count <= Self.connectionsMax else { throw TooMany() }
          try channel.pipeline.syncOperations.configureHTTPServerPipeline()
          try channel.pipeline.syncOperations.addHandler(
            ProbeHandler(answers: answers))
        }
      }
      .bind(host: host, port: port)
  }

  /// The port that it listens on.
  /// - Throws: why it does not listen.
  package var boundPort: Int? {
    get async throws { try await channel.get().localAddress?.port }
  }

  /// Tells where it turns out that the port cannot be listened on.
  func onFailure(_ handler: @escaping @Sendable (any Error) -> Void) {
    channel.whenFailure(handler)
  }

  /// Listens no more, and ends the connections that are open.
  package func close() async {
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
  private var deadline: Scheduled<Void>?

  init(answers: @escaping ProbeListener.Answers) { self.answers = answers }

  func handlerAdded(context: ChannelHandlerContext) {
    let channel = context.channel
    deadline = context.eventLoop.scheduleTask(in: ProbeListener.connectionTime) {
      channel.close(promise: nil)
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    deadline?.cancel()
    context.fireChannelInactive()
  }

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

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}
