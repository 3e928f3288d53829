internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTP2
internal import NIOPosix
internal import NIOSSL
internal import Synchronization

/// A request to a simulated provider.
package struct SimulatedRequest: Sendable {
  package var method: String
  /// Path and query.
  package var target: String
  /// In order, repeated ones included. Names are in lower case.
  package var headers: [(name: String, value: String)]
  package var body: [UInt8]
  /// 1 or 2.
  package var httpVersion: Int
  /// The number of its connection, from 1.
  package var connection: Int

  package init(
    method: String, target: String, headers: [(name: String, value: String)] = [],
    body: [UInt8] = [], httpVersion: Int = 1, connection: Int = 1
  ) {
    self.method = method
    self.target = target
    self.headers = headers
    self.body = body
    self.httpVersion = httpVersion
    self.connection = connection
  }

  package func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

/// A simulated provider's reply to a request.
package enum SimulatedReply: Sendable {
  case answer(status: Int, headers: [(String, String)] = [], body: String = "")
  /// Replies after some time.
  indirect case later(milliseconds: Int64, SimulatedReply)
  /// Reads the request and never answers.
  case blackHole
  /// Reads the request and drops the connection.
  case hangUp
  /// Sends less than its content length, then drops the connection.
  case truncated(status: Int)
}

/// An HTTP server on the loopback for simulated providers: HTTP/1.1 in clear text, or HTTP/2 and HTTP/1.1 over TLS.
package final class SimulatedHTTPServer: Sendable {
  package let port: Int
  package let isSecure: Bool
  private let listener: any Channel
  private let connections: Connections

  private final class Connections: Sendable {
    struct State {
      var count = 0
      var open: [ObjectIdentifier: any Channel] = [:]
    }
    let state = Mutex(State())

    func add(_ channel: any Channel) -> Int {
      state.withLock {
        $0.count += 1
        $0.open[ObjectIdentifier(channel)] = channel
        return $0.count
      }
    }
    func remove(_ channel: any Channel) {
      state.withLock { $0.open[ObjectIdentifier(channel)] = nil }
    }
  }

  package var origin: String { "\(isSecure ? "https" : "http")://localhost:\(port)" }
  /// The number of connections since the start.
  package var connectionCount: Int { connections.state.withLock { $0.count } }

  /// - Parameters:
  ///   - authority: signs its certificate; nil: clear text.
  ///   - protocols: the protocols that it offers over TLS.
  ///   - respond: runs on a connection's event loop.
  /// - Throws: the error of NIOSSL or of the socket.
  package static func start(
    authority: LoopbackAuthority?, protocols: [String] = ["h2", "http/1.1"],
    respond: @escaping @Sendable (SimulatedRequest) -> SimulatedReply
  ) async throws -> SimulatedHTTPServer {
    let connections = Connections()
    let tls = try authority?.serverContext(protocols: protocols)
    let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelInitializer { channel in
        let number = connections.add(channel)
        channel.closeFuture.whenComplete { _ in connections.remove(channel) }
        return channel.eventLoop.makeCompletedFuture {
          if let tls {
            try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls))
          }
        }.flatMap {
          @Sendable func handlers(_ channel: any Channel) -> EventLoopFuture<Void> {
            channel.eventLoop.makeCompletedFuture {
              try channel.pipeline.syncOperations.addHandler(
                Handler(connection: number, respond: respond))
            }
          }
          if tls != nil { return channel.configureCommonHTTPServerPipeline(handlers) }
          return channel.pipeline.configureHTTPServerPipeline().flatMap { handlers(channel) }
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    return SimulatedHTTPServer(
      port: listener.localAddress?.port ?? 0, isSecure: tls != nil, listener: listener,
      connections: connections)
  }

  private init(port: Int, isSecure: Bool, listener: any Channel, connections: Connections) {
    self.port = port
    self.isSecure = isSecure
    self.listener = listener
    self.connections = connections
  }

  /// Stops listening, and drops all connections.
  package func stop() async {
    try? await listener.close().get()
    dropConnections()
  }

  package func dropConnections() {
    let open = connections.state.withLock { Array($0.open.values) }
    for channel in open { channel.close(promise: nil) }
  }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let connection: Int
    private let respond: @Sendable (SimulatedRequest) -> SimulatedReply
    private var request: SimulatedRequest?

    init(connection: Int, respond: @escaping @Sendable (SimulatedRequest) -> SimulatedReply) {
      self.connection = connection
      self.respond = respond
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data) {
      case .head(let head):
        request = SimulatedRequest(
          method: head.method.rawValue, target: head.uri,
          headers: head.headers.map { ($0.name.lowercased(), $0.value) }, body: [],
          httpVersion: context.channel.parent?.parent == nil ? 1 : 2, connection: connection)
      case .body(let buffer):
        request?.body += buffer.readableBytesView
      case .end:
        guard let request else { return }
        self.request = nil
        write(respond(request), context)
      }
    }

    private func write(_ reply: SimulatedReply, _ context: ChannelHandlerContext) {
      switch reply {
      case .later(let milliseconds, let reply):
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: .milliseconds(milliseconds)) {
          let (handler, context) = bound.value
          if context.channel.isActive { handler.write(reply, context) }
        }
      case .blackHole: break
      case .hangUp: context.close(promise: nil)
      case .truncated(let status):
        head(status, [("content-length", "1000")], context)
        context.writeAndFlush(
          wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: "{")))), promise: nil)
        context.close(promise: nil)
      case .answer(let status, let headers, let body):
        let bytes = ByteBuffer(string: body)
        head(status, headers + [("content-length", "\(bytes.readableBytes)")], context)
        if bytes.readableBytes > 0 {
          context.write(wrapOutboundOut(.body(.byteBuffer(bytes))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
      }
    }

    private func head(
      _ status: Int, _ headers: [(String, String)], _ context: ChannelHandlerContext
    ) {
      let head = HTTPResponseHead(
        version: .http1_1, status: HTTPResponseStatus(statusCode: status),
        headers: HTTPHeaders(headers))
      context.write(wrapOutboundOut(.head(head)), promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      context.close(promise: nil)
    }
  }
}
