internal import CallBus
internal import CallTelemetry
package import NIOCore
internal import NIOHTTP1
internal import NIOPosix

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// The edge's event loops and its listening socket.
final class EdgeServer: Sendable {
  let loops: [LoopHandle]
  private let group: any EventLoopGroup
  private let ownsGroup: Bool
  private let shared: EdgeShared

  /// - Parameter eventLoops: as for `EdgeNode`.
  init(shared: EdgeShared, eventLoops: (any EventLoopGroup)?) {
    self.shared = shared
    ownsGroup = eventLoops == nil
    group =
      eventLoops
      ?? MultiThreadedEventLoopGroup(numberOfThreads: shared.configuration.eventLoopCount)
    loops = group.makeIterator().enumerated().map { index, eventLoop in
      LoopHandle(index: index, eventLoop: eventLoop, shared: shared)
    }
    for loop in loops { loop.execute { $0.start() } }
  }

  /// Listens. The event loops take new connections in turn.
  /// - Throws: why it cannot listen.
  func listen() async throws -> any Channel {
    let configuration = shared.configuration
    return try await ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: configuration.backlog)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .serverChannelInitializer { [shared] channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(
            AcceptErrorHandler {
              shared.gate.refused(.descriptors, nil, now: shared.clock.now())
            })
        }
      }
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelOption(.recvAllocator, value: PassingBuffers(large: largeRead))
      // NIO keeps this many buffers for each channel.
      .childChannelOption(.maxMessagesPerRead, value: 1)
      // Above the high mark a device counts as slow: see `EdgeLoop+Peers`.
      .childChannelOption(
        .writeBufferWaterMark,
        value: .init(
          low: configuration.peers.outboundBytesSlow / 2,
          high: configuration.peers.outboundBytesSlow)
      )
      .childChannelInitializer { [self] channel in
        channel.eventLoop.makeCompletedFuture {
          guard let loop = loops.first(where: { $0.eventLoop === channel.eventLoop }) else {
            return
          }
          try loop.serve(channel)
        }
      }
      .bind(host: configuration.host, port: configuration.port).get()
  }

  /// The size of a read while much arrives. With TLS it is smaller, since NIOSSL keeps the largest buffer that it
  /// ever decrypted into.
  private var largeRead: Int { shared.configuration.tls == nil ? 65_536 : 16_384 }

  func stop() async {
    for loop in loops { try? await loop.run { $0.stop() } }
    if ownsGroup { try? await group.shutdownGracefully() }
  }
}

extension LoopHandle {
  /// Adds the handlers of HTTP to a new connection, or refuses it. To be called on the loop.
  /// - Throws: why the channel has to be closed.
  func serve(_ channel: any Channel) throws {
    let loop = onLoop
    let connection: Connection
    do {
      connection = try loop.admit(channel)
    } catch {
      return try loop.refuse(channel, error)
    }
    let encoder = HTTPResponseEncoder()
    let decoder = HTTPDecoding.decoder()
    let requests = PipeliningLimitHandler(loop.shared)
    let pipelining = HTTPServerPipelineHandler()
    let pipeline = channel.pipeline.syncOperations
    let http = HTTPHandler(
      loop: loop, connection: connection, companions: [pipelining, requests, decoder, encoder])
    try pipeline.addHandlers([encoder, decoder, requests, pipelining, http])
    if let tls = loop.shared.configuration.tls {
      try pipeline.addHandler(TLSHandshakeHandler(tls, loop.shared), position: .first)
    }
    if let proxied = loop.proxyHeader(of: connection) {
      try pipeline.addHandler(proxied, position: .first)
    }
  }
}

/// Gives each read a new buffer, so that a connection that reads nothing holds almost no memory.
///
/// NIO keeps a channel's first buffer for ever, and uses it again unless the allocator says that the next one may
/// be larger. With its own allocators a channel so keeps 2 kB, and 64 kB once it has read a large message. Here
/// the first buffer is tiny, and the next one may always be larger.
private struct PassingBuffers: RecvByteBufferAllocator {
  /// Enough for what devices usually send, and the largest size that glibc's allocator gives without a search.
  private static let small = 1024
  let large: Int
  var nextBytes = 32

  func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
    allocator.buffer(capacity: nextBytes)
  }

  /// nil: no buffer is kept for the next read.
  func nextBufferSize() -> Int? { nil }

  mutating func record(actualReadBytes: Int) -> Bool {
    nextBytes =
      nextBytes >= Self.small && actualReadBytes >= nextBytes ? large : Self.small
    return true
  }
}

/// Stands on a listening socket: reports that no connection could be accepted for want of file descriptors or memory, and
/// accepts none for a second.
///
/// Otherwise the event loop would try again at once, for ever, since the connection stays in the kernel's queue, and the
/// socket readable. NIO's `AcceptBackoffHandler` is not enough: it holds back the next read, but where the first accept
/// of a read fails, the socket stays registered for that same read.
package final class AcceptErrorHandler: ChannelInboundHandler {
  package typealias InboundIn = any Channel

  private let exhausted: () -> Void

  /// - Parameter exhausted: called each time.
  package init(_ exhausted: @escaping () -> Void) { self.exhausted = exhausted }

  package func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard let error = error as? IOError, Self.isExhaustion(error) else {
      return context.fireErrorCaught(error)
    }
    exhausted()
    let channel = context.channel
    channel.setOption(.autoRead, value: false).whenComplete { _ in }
    context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
      channel.setOption(.autoRead, value: true).whenComplete { _ in }
    }
  }

  private static func isExhaustion(_ error: IOError) -> Bool {
    [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(error.errnoCode)
  }
}
