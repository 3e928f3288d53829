internal import CallTelemetry
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// The edge's event loops and its listening socket.
final class EdgeServer: Sendable {
  let loops: [LoopHandle]
  private let group: MultiThreadedEventLoopGroup
  private let shared: EdgeShared

  init(shared: EdgeShared) {
    self.shared = shared
    let count = min(max(1, shared.configuration.eventLoops), 1 << Int(EdgeLoop.indexBits))
    group = MultiThreadedEventLoopGroup(numberOfThreads: count)
    loops = group.makeIterator().enumerated().map { index, eventLoop in
      LoopHandle(index: index, eventLoop: eventLoop, shared: shared)
    }
    for loop in loops { loop.execute { $0.start() } }
  }

  /// Listens. New connections go to the event loops in turn.
  func listen() async throws -> any Channel {
    let configuration = shared.configuration
    return try await ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: configuration.backlog)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .serverChannelInitializer { [shared] channel in
        channel.eventLoop.makeCompletedFuture { try AcceptWatch.install(on: channel, shared) }
      }
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelOption(.recvAllocator, value: PassingBuffers(large: largeRead))
      // Buffers kept for each channel: no more than its first.
      .childChannelOption(.maxMessagesPerRead, value: 1)
      // Beyond the high mark a device is slow: see `EdgeLoop+Peers`.
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

  /// NIOSSL keeps the largest buffer that it ever decrypted into.
  private var largeRead: Int { shared.configuration.tls == nil ? 65_536 : 16_384 }

  func stop() async {
    for loop in loops { try? await loop.run { $0.stop() } }
    try? await group.shutdownGracefully()
  }
}

extension LoopHandle {
  /// Makes a new connection of this loop speak HTTP, or refuses it. To be called on the loop.
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
    let requests = PipelinedRequests(
      most: loop.shared.gate.limits.pipelinedRequestsMax, metrics: loop.shared.gate.metrics)
    let pipelining = HTTPServerPipelineHandler()
    let pipeline = channel.pipeline.syncOperations
    try pipeline.addHandler(encoder)
    try pipeline.addHandler(decoder)
    try pipeline.addHandler(requests)
    try pipeline.addHandler(pipelining)
    try pipeline.addHandler(
      HTTPHandler(
        loop: loop, connection: connection, companions: [pipelining, requests, decoder, encoder]))
    if let tls = loop.shared.configuration.tls {
      try pipeline.addHandler(TLSDoor(tls, loop.shared), position: .first)
    }
    if let proxied = loop.proxyHeader(of: connection) {
      try pipeline.addHandler(proxied, position: .first)
    }
  }
}

/// Gives each read a new buffer, so that a connection that reads nothing holds next to none.
///
/// NIO keeps a channel's first buffer for ever, and uses it again unless the allocator says that the
/// next one may be larger; its own allocators so keep 2 kB for each channel, and 64 kB once it has
/// read a large message. The first buffer here is tiny, and the next may always be larger.
private struct PassingBuffers: RecvByteBufferAllocator {
  /// Holds what devices usually say, and is the largest that glibc's allocator gives without a search.
  private static let small = 1024
  let large: Int
  private var nextBytes = 32

  init(large: Int) { self.large = large }

  func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
    allocator.buffer(capacity: nextBytes)
  }

  /// nil: there is no size that a kept buffer could have.
  func nextBufferSize() -> Int? { nil }

  mutating func record(actualReadBytes: Int) -> Bool {
    nextBytes =
      nextBytes >= Self.small && actualReadBytes >= nextBytes ? large : Self.small
    return true
  }
}
