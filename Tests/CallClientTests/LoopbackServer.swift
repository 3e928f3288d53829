import CallCore
import CallWire
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket

/// A WebSocket server by NIO's own implementation, on a free port of loopback.
struct LoopbackServer {
  let port: Int
  private let channel: any Channel

  /// - Parameters:
  ///   - tls: what it speaks TLS with; nil: it does not.
  ///   - answer: the frames with which a device's frame is answered.
  static func start(
    tls: NIOSSLContext? = nil, answer: @escaping @Sendable (ClientFrame) -> [ServerFrame]
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

  private let answer: @Sendable (ClientFrame) -> [ServerFrame]

  init(answer: @escaping @Sendable (ClientFrame) -> [ServerFrame]) { self.answer = answer }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    guard frame.opcode == .binary else { return }
    let bytes = Array(frame.unmaskedData.readableBytesView)
    let decoded = bytes.withUnsafeBytes { bytes in
      try? DeviceCodec.protobuf.decodeClient(bytes, limits: CallLimits())
    }
    guard let decoded else { return context.close(promise: nil) }
    for frame in answer(decoded) {
      let bytes = ByteBuffer(bytes: DeviceCodec.protobuf.encode(frame))
      context.write(
        wrapOutboundOut(WebSocketFrame(fin: true, opcode: .binary, data: bytes)), promise: nil)
    }
    context.flush()
  }
}

/// SHA-1 and base64 as a reference for the handshake, by way of NIO's server upgrade.
enum ReferenceSHA1 {
  static func accept(_ key: String) -> String {
    let channel = EmbeddedChannelUpgrade(key: key)
    return channel.accept
  }
}
