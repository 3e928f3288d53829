public import CallClient
public import CallmeshClient
internal import NIOCore
internal import NIOPosix

/// Opens WebSockets with SwiftNIO. For servers, terminals and Linux; apps on Apple's platforms may use
/// `URLSessionTransport`, and need no NIO then.
public struct NIOTransport: Transport {
  private let trust: EdgeTrust

  /// - Parameter trust: the authorities for edges at `wss://`.
  public init(trust: EdgeTrust = .system) { self.trust = trust }

  public func connect(
    to url: String, subprotocol: String, report: @escaping @Sendable (SocketEvent) -> Void
  ) -> any Socket {
    let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
    let socket = NIOSocket(eventLoop)
    guard let edge = EdgeAddress(url) else {
      eventLoop.execute { report(.closed(.failed("\(url) is not the address of an edge"))) }
      return socket
    }
    // The handler is made on its loop, on which alone it lives.
    eventLoop.execute { [trust] in
      let handler = NIOSocketHandler(edge, subprotocol, report)
      let bound = NIOLoopBound(handler, eventLoop: eventLoop)
      socket.handler.value = handler
      ClientBootstrap(group: eventLoop)
        .channelOption(.socketOption(.tcp_nodelay), value: 1)
        .connectTimeout(.seconds(10))
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try trust.secure(channel, to: edge)
            try channel.pipeline.syncOperations.addHandler(bound.value)
          }
        }
        .connect(host: edge.host, port: edge.port)
        .whenFailure { bound.value.connectFailed($0) }
    }
    return socket
  }
}

/// The app's end of a socket. Its calls go to the handler's loop, in order.
private struct NIOSocket: Socket {
  let eventLoop: any EventLoop
  let handler: NIOLoopBoundBox<NIOSocketHandler?>

  init(_ eventLoop: any EventLoop) {
    self.eventLoop = eventLoop
    handler = NIOLoopBoundBox.makeEmptyBox(valueType: NIOSocketHandler.self, eventLoop: eventLoop)
  }

  func send(_ message: SocketMessage) {
    eventLoop.execute { handler.value?.send(message) }
  }

  func close(code: UInt16?) {
    eventLoop.execute { handler.value?.close(code: code) }
  }
}
