import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket

/// A WebSocket server by NIO's own implementation. It sends back what it gets; the text `close 4001` has it close with that
/// code, `drop` break the connection, and `ping` send a ping and say `pong` when it is answered.
struct EchoServer {
  let port: Int
  private let channel: any Channel
  var url: String { "ws://127.0.0.1:\(port)/v1/connect" }

  /// - Parameter subprotocol: the one that it chooses; nil: none.
  static func start(subprotocol: String? = "test.v1") async throws -> EchoServer {
    let upgrader = NIOWebSocketServerUpgrader(
      maxFrameSize: 4 << 20,
      shouldUpgrade: { channel, _ in
        var headers = HTTPHeaders()
        if let subprotocol { headers.add(name: "Sec-WebSocket-Protocol", value: subprotocol) }
        return channel.eventLoop.makeSucceededFuture(headers)
      },
      upgradePipelineHandler: { channel, _ in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(EchoHandler())
        }
      })
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.configureHTTPServerPipeline(
            withServerUpgrade: (upgraders: [upgrader], completionHandler: { _ in }))
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    return EchoServer(port: channel.localAddress?.port ?? 0, channel: channel)
  }

  func stop() async throws { try await channel.close() }
}

private final class EchoHandler: ChannelInboundHandler {
  typealias InboundIn = WebSocketFrame
  typealias OutboundOut = WebSocketFrame

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    let payload = frame.unmaskedData
    switch frame.opcode {
    case .text where String(buffer: payload) == "drop": context.close(promise: nil)
    case .text where String(buffer: payload) == "ping":
      write(context, .ping, ByteBuffer(string: "there?"))
    case .text where String(buffer: payload).hasPrefix("close "):
      let code = UInt16(String(buffer: payload).dropFirst(6)) ?? 0
      write(context, .connectionClose, ByteBuffer(integer: code))
    case .text, .binary: write(context, frame.opcode, payload)
    case .pong: write(context, .text, ByteBuffer(string: "pong to \(String(buffer: payload))"))
    default: break
    }
  }

  private func write(
    _ context: ChannelHandlerContext, _ opcode: WebSocketOpcode, _ data: ByteBuffer
  ) {
    let frame = WebSocketFrame(fin: true, opcode: opcode, data: data)
    context.writeAndFlush(wrapOutboundOut(frame), promise: nil)
  }
}
