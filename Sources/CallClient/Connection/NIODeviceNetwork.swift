package import CallCore
package import CallWire
package import NIOCore
internal import NIOPosix

/// The time and timers of devices on an event loop.
package final class NIODeviceLoop: DeviceLoop {
  package let eventLoop: any EventLoop
  private let isolated: NIOIsolatedEventLoop
  /// Wall clock minus monotonic clock, at start.
  private let offsetMicroseconds: Int64
  /// When the first socket of this loop turn was read.
  private var turnBeganAt: Timestamp?

  /// To be called on the loop.
  package init(eventLoop: any EventLoop, wallClock: Timestamp) {
    self.eventLoop = eventLoop
    self.isolated = eventLoop.assumeIsolated()
    self.offsetMicroseconds = wallClock.microseconds - Self.monotonic
  }

  private static var monotonic: Int64 { Int64(NIODeadline.now().uptimeNanoseconds / 1000) }

  package var now: Timestamp { Timestamp(microseconds: Self.monotonic + offsetMicroseconds) }

  package var arrivedAt: Timestamp {
    if let turnBeganAt { return turnBeganAt }
    let now = now
    turnBeganAt = now
    // Tasks run after all sockets of the turn were read.
    isolated.execute { [weak self] in self?.turnBeganAt = nil }
    return now
  }

  package func schedule(at time: Timestamp, _ action: @escaping () -> Void) {
    let uptime = max(0, time.microseconds - offsetMicroseconds)
    isolated.scheduleTask(deadline: .uptimeNanoseconds(UInt64(uptime) * 1000), action)
  }
}

/// Connects devices over TCP or TLS, on one event loop.
package final class NIODeviceNetwork: DeviceNetwork {
  private let eventLoop: any EventLoop
  private let codec: DeviceCodec
  private var seeds: SplitMix64
  private let trust: EdgeTrust
  private var sources: SourceAddresses?

  /// - Parameters:
  ///   - trust: of edges at `wss://`.
  ///   - sources: the local addresses of connections to the loopback; nil: 127.0.0.1.
  package init(
    eventLoop: any EventLoop, codec: DeviceCodec, trust: EdgeTrust = .system,
    sources: SourceAddresses? = nil
  ) {
    self.eventLoop = eventLoop
    self.codec = codec
    self.trust = trust
    self.sources = sources
    self.seeds = SplitMix64(seed: UInt64.random(in: 0 ... .max))
  }

  package func connect(to edge: String, delegate: any DeviceLinkDelegate) -> any DeviceLink {
    let address = EdgeAddress(edge)
    let connection = DeviceConnection(
      edge: address ?? EdgeAddress(host: "", port: 0), codec: codec, delegate: delegate,
      seed: seeds.next())
    let bound = NIOLoopBound(connection, eventLoop: eventLoop)
    guard let address else {
      let cause = LinkClosed.connectFailed("\(edge) is not wss://host:port or ws://host:port")
      // Later, so that the owner has the link before its end is reported.
      eventLoop.execute { bound.value.connectFailed(cause) }
      return connection
    }
    var bootstrap = ClientBootstrap(group: eventLoop)
    if let source = sources?.next(for: address.host) { bootstrap = bootstrap.bind(to: source) }
    bootstrap
      .channelOption(.socketOption(.tcp_nodelay), value: 1)
      // Frames have a few hundred bytes, and there are many connections: small buffers.
      .channelOption(
        .recvAllocator,
        value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 2048, maximum: 65_536)
      )
      .connectTimeout(.seconds(10))
      .channelInitializer { [trust] channel in
        channel.eventLoop.makeCompletedFuture {
          try trust.secure(channel, to: address)
          try channel.pipeline.syncOperations.addHandler(bound.value)
        }
      }
      .connect(host: address.host, port: address.port)
      .whenFailure { error in bound.value.connectFailed(error) }
    return connection
  }
}

/// Addresses of the loopback network that connections leave from, in turn. To a server on this
/// machine one process then looks like clients at many addresses, so that limits for each address
/// apply as they would on the internet. Linux lets a client bind any address of 127.0.0.0/8.
package struct SourceAddresses: Sendable {
  private let second: UInt8
  private let count: Int
  private var taken = 0

  /// The addresses 127.`second`.0.1, 127.`second`.0.2 and so on.
  /// - Parameter count: 1 to 64,000.
  package init(second: UInt8, count: Int) {
    self.second = second
    self.count = min(max(1, count), 64_000)
  }

  /// Returns the next address, with any free port; nil where the server's host is no address of
  /// 127.0.0.0/8.
  package mutating func next(for host: String) -> SocketAddress? {
    guard host.hasPrefix("127.") else { return nil }
    let number = taken % count
    taken += 1
    return try? SocketAddress(
      ipAddress: "127.\(second).\(number / 250).\(number % 250 + 1)", port: 0)
  }
}
