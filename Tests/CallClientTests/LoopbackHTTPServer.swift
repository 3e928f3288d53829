import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// An HTTP server by NIO's own implementation, on a free port of loopback, that answers by a script.
final class LoopbackHTTPServer: Sendable {
  struct Request: Sendable {
    var method: String
    var path: String
    var authorization: String?
    var body: String
  }

  enum Answer: Sendable {
    case status(Int, String)
    /// Closes without a word.
    case hangUp
    /// Says nothing, ever.
    case silence
  }

  let port: Int
  private let channel: any Channel
  private let heard: Heard

  private final class Heard: Sendable {
    let requests = Mutex<[Request]>([])
  }

  /// - Parameters:
  ///   - tls: what it speaks TLS with; nil: it does not.
  ///   - answer: to a request, and how many came before it.
  static func start(
    tls: NIOSSLContext? = nil, _ answer: @escaping @Sendable (Request, Int) -> Answer
  ) async throws -> LoopbackHTTPServer {
    let heard = Heard()
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          if let tls {
            try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls))
          }
          try channel.pipeline.syncOperations.configureHTTPServerPipeline()
          try channel.pipeline.syncOperations.addHandler(
            Handler { request in
              let before = heard.requests.withLock {
                $0.append(request)
                return $0.count - 1
              }
              return answer(request, before)
            })
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    return LoopbackHTTPServer(channel: channel, heard: heard)
  }

  private init(channel: any Channel, heard: Heard) {
    self.channel = channel
    self.heard = heard
    port = channel.localAddress?.port ?? 0
  }

  var address: String { "ws://127.0.0.1:\(port)" }
  var requests: [Request] { heard.requests.withLock { $0 } }

  func stop() async throws { try await channel.close() }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart
    private let answer: (Request) -> Answer
    private var request = Request(method: "", path: "", body: "")

    init(_ answer: @escaping (Request) -> Answer) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data) {
      case .head(let head):
        request = Request(
          method: head.method.rawValue, path: head.uri,
          authorization: head.headers.first(name: "authorization"), body: "")
      case .body(let part): request.body += String(buffer: part)
      case .end: respond(context)
      }
    }

    private func respond(_ context: ChannelHandlerContext) {
      switch answer(request) {
      case .hangUp: context.close(promise: nil)
      case .silence: break
      case .status(let status, let body):
        let head = HTTPResponseHead(
          version: .http1_1, status: HTTPResponseStatus(statusCode: status),
          headers: ["content-length": "\(body.utf8.count)"])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: body)))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
      }
    }
  }
}
