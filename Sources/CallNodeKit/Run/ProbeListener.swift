package import CallEdge
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import NIOCore
package import NIOHTTP1
internal import NIOPosix
internal import ServiceLifecycle
internal import Synchronization

/// The answer to one request of an operator's tools.
package struct ProbeAnswer: Sendable {
  package var status: HTTPResponseStatus = .ok
  package var contentType = "application/json"
  package var text: String
  /// In seconds; nil: the answer has no such header.
  package var retryAfter: Int?
}

/// A small HTTP server for operators' tools: one thread, one request per connection.
package final class ProbeListener: Sendable {
  package typealias Answers = @Sendable (_ method: HTTPMethod, _ path: String) -> ProbeAnswer

  /// The most connections at once. Further ones are closed.
  package static let connectionsMax = 32
  /// How long a connection may last, whatever its peer does.
  fileprivate static let connectionTime = TimeAmount.seconds(10)

  private final class Connections: Sendable {
    let count = Atomic(0)
  }
  private struct TooMany: Error {}

  private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  private let channel: EventLoopFuture<any Channel>

  /// Starts to listen. Does not block.
  package init(host: String, port: Int, answers: @escaping Answers) {
    let connections = Connections()
    channel = ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 64)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .serverChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          // Without it, the loop retries at once and without end when file descriptors run out.
          try channel.pipeline.syncOperations.addHandler(
            AcceptErrorHandler {})
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

  /// The port that the listener is bound to.
  /// - Throws: the reason why it does not listen.
  package var boundPort: Int? {
    get async throws { try await channel.get().localAddress?.port }
  }

  /// Calls the handler if the port cannot be listened on.
  func onFailure(_ handler: @escaping @Sendable (any Error) -> Void) {
    channel.whenFailure(handler)
  }

  /// Stops listening and closes all connections.
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

/// `/metrics`, `/healthz` and `/readyz` of a node, at its operators' port.
struct MetricsServer: Service {
  var host: String
  var port: Int
  var metrics: MetricsRegistry
  var readiness: @Sendable () -> Readiness
  var logger: Logger

  func run() async throws {
    let listener = ProbeListener(host: host, port: port) { method, path in
      switch (method, path) {
      case (.GET, "/metrics"):
        ProbeAnswer(contentType: "text/plain; version=0.0.4", text: metrics.render())
      case (.GET, "/healthz"): .alive
      case (.GET, "/readyz"): .readiness(readiness())
      case (_, "/metrics"), (_, "/healthz"), (_, "/readyz"):
        ProbeAnswer(status: .methodNotAllowed, contentType: "text/plain", text: "Only GET.\n")
      default:
        ProbeAnswer(
          status: .notFound, contentType: "text/plain",
          text: "Here are /metrics, /healthz and /readyz.\n")
      }
    }
    do {
      let bound = try await listener.boundPort ?? port
      logger.info(
        "metrics are served", metadata: .keys([.host: "\(host)", .port: "\(bound)"]))
      // Ends with the group, since operators still watch a node that hands its shards over.
      try await gracefulShutdown()
    } catch is CancellationError {
    } catch {
      await listener.close()
      throw error
    }
    await listener.close()
  }
}

extension ProbeAnswer {
  package static var alive: ProbeAnswer { ProbeAnswer(text: "{\"status\":\"ok\"}\n") }

  package static func readiness(_ readiness: Readiness) -> ProbeAnswer {
    let missing = readiness.missing.map(JSONWriter.quoted).joined(separator: ",")
    let ownerless = readiness.shardsWithoutOwner.map { "\($0)" }.joined(separator: ",")
    let text =
      #"{"ready":\#(readiness.isReady),"missing":[\#(missing)],"shardsWithoutOwner":[\#(ownerless)]}"#
    return readiness.isReady
      ? ProbeAnswer(text: text + "\n")
      : ProbeAnswer(status: .serviceUnavailable, text: text + "\n", retryAfter: 1)
  }
}
