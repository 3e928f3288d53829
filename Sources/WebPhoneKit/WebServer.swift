import NIOCore
import NIOHTTP1
import NIOPosix
package import NIOSSL
import Synchronization

/// A server of HTTP/1, on loopback unless its site is for others, too.
package final class WebServer: Sendable {
  /// The most connections at once. Further ones are closed.
  package static let connectionsMax = 256
  /// A connection on which nothing happens for this long is closed.
  static let idleTime = TimeAmount.seconds(60)
  /// The largest body of a request. Nothing reads it.
  static let bodyBytesMax = 65_536

  package let port: Int
  private let listener: any Channel
  private struct TooMany: Error {}

  /// - Parameters:
  ///   - port: 0: a free one.
  ///   - tls: the server's side of TLS; nil: it has none.
  /// - Throws: why it cannot listen.
  package static func start(
    port: Int, site: WebSite, tls: NIOSSLContext? = nil
  ) async throws -> WebServer {
    let connections = Connections()
    let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 64)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelInitializer { channel in
        let count = connections.count.add(1, ordering: .relaxed).newValue
        channel.closeFuture.whenComplete { _ in connections.count.subtract(1, ordering: .relaxed) }
        return channel.eventLoop.makeCompletedFuture {
          guard count <= Self.connectionsMax else { throw TooMany() }
          let pipeline = channel.pipeline.syncOperations
          try pipeline.addHandler(IdleStateHandler(allTimeout: Self.idleTime))
          if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls)) }
          try pipeline.configureHTTPServerPipeline()
          try pipeline.addHandler(WebHandler(site: site))
        }
      }
      .bind(host: site.reach.address, port: port).get()
    return WebServer(port: listener.localAddress?.port ?? port, listener: listener)
  }

  private init(port: Int, listener: any Channel) {
    self.port = port
    self.listener = listener
  }

  /// Stops listening.
  package func stop() async { try? await listener.close().get() }

  private final class Connections: Sendable {
    let count = Atomic(0)
  }
}

/// Answers the requests of a connection, one after the other: the pipeline holds back what a browser sends ahead.
private final class WebHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let site: WebSite
  private var head: HTTPRequestHead?
  private var bodyBytes = 0

  init(site: WebSite) { self.site = site }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      self.head = head
      bodyBytes = 0
    case .body(let part):
      bodyBytes += part.readableBytes
      if bodyBytes > WebServer.bodyBytesMax { context.close(promise: nil) }
    case .end:
      guard let head else { return }
      self.head = nil
      respond(to: head, on: context.channel)
    }
  }

  private func respond(to head: HTTPRequestHead, on channel: any Channel) {
    let request = WebRequest(
      method: head.method.rawValue, target: head.uri, host: head.headers.first(name: "host"))
    let site = site
    NIOThreadPool.singleton.runIfActive(eventLoop: channel.eventLoop) { site.answer(request) }
      .whenComplete { result in
        switch result {
        case .success(let answer):
          Self.write(answer, edges: site.reach.edgeSources, to: head, on: channel)
        case .failure: channel.close(promise: nil)
        }
      }
  }

  private static func write(
    _ answer: WebAnswer, edges: String, to head: HTTPRequestHead, on channel: any Channel
  ) {
    let status = HTTPResponseStatus(statusCode: answer.status)
    let response = HTTPResponseHead(
      version: head.version, status: status,
      headers: headers(answer, edges: edges, isKept: head.isKeepAlive))
    channel.write(HTTPServerResponsePart.head(response), promise: nil)
    if head.method != .HEAD {
      let body = channel.allocator.buffer(bytes: answer.body)
      channel.write(HTTPServerResponsePart.body(.byteBuffer(body)), promise: nil)
    }
    let written = channel.writeAndFlush(HTTPServerResponsePart.end(nil))
    if !head.isKeepAlive { written.whenComplete { _ in channel.close(promise: nil) } }
  }

  private static func headers(_ answer: WebAnswer, edges: String, isKept: Bool) -> HTTPHeaders {
    var headers = HTTPHeaders([
      ("content-type", answer.contentType), ("content-length", "\(answer.body.count)"),
      ("cache-control", "no-cache"), ("x-content-type-options", "nosniff"),
      // The page loads nothing from elsewhere; edges are on other ports of this machine.
      (
        "content-security-policy",
        "default-src 'self'; connect-src 'self' \(edges); object-src 'none'; base-uri 'none'; "
          + "form-action 'none'; frame-ancestors 'none'"
      ),
    ])
    if let location = answer.location { headers.add(name: "location", value: location) }
    if !isKept { headers.add(name: "connection", value: "close") }
    return headers
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if event is IdleStateHandler.IdleStateEvent {
      context.close(promise: nil)
    } else {
      context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}
