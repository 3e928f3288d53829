import CallCore
import CallWire
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket

/// A WebSocket server by NIO's own implementation, on a free port of loopback.
struct LoopbackServer {
  let port: Int
  var url: String { "ws://127.0.0.1:\(port)" }
  private let channel: any Channel

  /// - Parameters:
  ///   - tls: what it speaks TLS with; nil: it does not.
  ///   - answer: the frames with which a device's frame is answered; nil: an attach is taken, and nothing else answered.
  static func start(
    tls: NIOSSLContext? = nil,
    answer: @escaping @Sendable (ClientFrame) -> [ServerFrame]? = { _ in nil }
  ) async throws -> LoopbackServer {
    let upgrader = NIOWebSocketServerUpgrader(
      shouldUpgrade: { channel, head in
        let subprotocol = head.headers["Sec-WebSocket-Protocol"].first ?? ""
        return channel.eventLoop.makeSucceededFuture(["Sec-WebSocket-Protocol": subprotocol])
      },
      upgradePipelineHandler: { channel, _ in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(AnswerHandler(answer: answer))
        }
      })
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls)) }
          try pipeline.configureHTTPServerPipeline(
            withServerUpgrade: (upgraders: [upgrader], completionHandler: { _ in }))
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    return LoopbackServer(port: channel.localAddress?.port ?? 0, channel: channel)
  }

  func stop() async throws { try await channel.close() }
}

private final class AnswerHandler: ChannelInboundHandler {
  typealias InboundIn = WebSocketFrame
  typealias OutboundOut = WebSocketFrame

  private let answer: @Sendable (ClientFrame) -> [ServerFrame]?

  init(answer: @escaping @Sendable (ClientFrame) -> [ServerFrame]?) { self.answer = answer }

  private static func standard(_ frame: ClientFrame) -> [ServerFrame] {
    guard case .attach = frame.command else { return [] }
    return [.reply(id: frame.id, .attached(.sample))]
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    guard frame.opcode == .binary else { return }
    let bytes = Array(frame.unmaskedData.readableBytesView)
    let decoded = bytes.withUnsafeBytes { bytes in
      try? DeviceCodec.protobuf.decodeClient(bytes, limits: CallLimits())
    }
    guard let decoded else { return context.close(promise: nil) }
    for frame in answer(decoded) ?? Self.standard(decoded) {
      let bytes = ByteBuffer(bytes: DeviceCodec.protobuf.encode(frame))
      context.write(
        wrapOutboundOut(WebSocketFrame(fin: true, opcode: .binary, data: bytes)), promise: nil)
    }
    context.flush()
  }
}

extension LoopbackServer {
  /// The `Sec-WebSocket-Accept` by which NIO's server answers a key.
  static func accept(_ key: String) -> String {
    let channel = EmbeddedChannel()
    let upgrader = NIOWebSocketServerUpgrader(
      shouldUpgrade: { channel, _ in channel.eventLoop.makeSucceededFuture([:]) },
      upgradePipelineHandler: { channel, _ in channel.eventLoop.makeSucceededVoidFuture() })
    let headers: HTTPHeaders = [
      "Host": "x", "Upgrade": "websocket", "Connection": "upgrade", "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": key,
    ]
    let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/", headers: headers)
    let future = upgrader.buildUpgradeResponse(
      channel: channel, upgradeRequest: head, initialResponseHeaders: [:])
    channel.embeddedEventLoop.run()
    return (try? future.wait())?["Sec-WebSocket-Accept"].first ?? ""
  }
}
