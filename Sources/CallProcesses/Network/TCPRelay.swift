import NIOCore
import NIOPosix
import Synchronization

/// A relay from one node to one nats-server that can be cut, as a network can.
package final class TCPRelay: Sendable {
  package enum Mode: Sendable {
    case open
    /// Nothing passes, and neither side gets an error: a pulled cable. Sent bytes wait.
    case silent
    /// Connections are broken, new ones too: a firewall that refuses.
    case refusing
  }

  private final class Ways {
    var mode = Mode.open
    /// The cuts by claim. The relay is open without any.
    var closedBy: [Int: Mode] = [:]
    var halves: [ObjectIdentifier: Half] = [:]
  }

  package let port: Int
  private let loop: any EventLoop
  private let ways: NIOLoopBound<Ways>

  /// One thread for all relays: they copy bytes and no more.
  private static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)

  /// Listens on a free port and relays connections to `target`.
  /// - Throws: what NIO throws where it cannot listen.
  package init(to target: Int) async throws {
    let loop = Self.group.next()
    let ways = try await loop.submit { NIOLoopBound(Ways(), eventLoop: loop) }.get()
    let listener = try await ServerBootstrap(group: loop)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
      .childChannelOption(.autoRead, value: false)
      .childChannelInitializer { channel in Self.accepted(channel, ways, target: target) }
      .bind(host: "127.0.0.1", port: 0).get()
    guard let port = listener.localAddress?.port else {
      throw ProcessFailure("a relay has no port")
    }
    self.port = port
    self.loop = loop
    self.ways = ways
  }

  /// - Parameter claim: identifies who cuts or opens it. It is open without any cut; a refusal outranks silence.
  package func set(_ mode: Mode, by claim: Int = 0) async {
    let ways = self.ways
    try? await loop.submit {
      let ways = ways.value
      ways.closedBy[claim] = mode == .open ? nil : mode
      let modes = ways.closedBy.values
      ways.mode = modes.contains(.refusing) ? .refusing : modes.first ?? .open
      for half in ways.halves.values {
        switch ways.mode {
        case .open: half.readOn()
        // Both sides stop reading.
        case .silent: break
        case .refusing: half.breakOff()
        }
      }
    }.get()
  }

  private static func accepted(
    _ near: any Channel, _ ways: NIOLoopBound<Ways>, target: Int
  ) -> EventLoopFuture<Void> {
    guard ways.value.mode != .refusing else { return near.close() }
    let first = Half(ways.value, near)
    let bound = NIOLoopBound(first, eventLoop: near.eventLoop)
    return near.eventLoop.makeCompletedFuture {
      try near.pipeline.syncOperations.addHandler(first)
    }.flatMap {
      ClientBootstrap(group: near.eventLoop)
        .channelOption(.socketOption(.tcp_nodelay), value: 1)
        .channelOption(.autoRead, value: false)
        .channelInitializer { far in
          far.eventLoop.makeCompletedFuture {
            let second = Half(ways.value, far)
            second.other = bound.value
            bound.value.other = second
            try far.pipeline.syncOperations.addHandler(second)
          }
        }
        .connect(host: "127.0.0.1", port: target)
        .whenComplete { result in
          switch result {
          case .success: bound.value.readOn()
          case .failure: bound.value.breakOff()
          }
        }
      return near.eventLoop.makeSucceededVoidFuture()
    }
  }

  /// One side of a connection. It reads only while the relay is open and the other side can write.
  private final class Half: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private unowned let ways: Ways
    private let channel: any Channel
    var other: Half?
    /// Bytes read after the relay was cut.
    private var held: ByteBuffer?

    init(_ ways: Ways, _ channel: any Channel) {
      self.ways = ways
      self.channel = channel
      ways.halves[ObjectIdentifier(self)] = self
    }

    func readOn() {
      guard ways.mode == .open, let other else { return }
      if let held = held.take() { other.channel.writeAndFlush(held, promise: nil) }
      if other.channel.isWritable, channel.isActive { channel.read() }
    }

    func breakOff() { channel.close(promise: nil) }

    func channelActive(context: ChannelHandlerContext) {
      readOn()
      other?.readOn()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      var buffer = unwrapInboundIn(data)
      guard ways.mode == .open, held == nil, let other else {
        if held == nil { held = buffer } else { held?.writeBuffer(&buffer) }
        return
      }
      other.channel.writeAndFlush(buffer, promise: nil)
    }

    func channelReadComplete(context: ChannelHandlerContext) { readOn() }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
      if channel.isWritable { other?.readOn() }
    }

    func channelInactive(context: ChannelHandlerContext) {
      ways.halves[ObjectIdentifier(self)] = nil
      let other = self.other
      self.other = nil
      other?.other = nil
      other?.breakOff()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { breakOff() }
  }
}
