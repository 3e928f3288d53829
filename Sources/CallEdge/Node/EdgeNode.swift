package import CallAuth
public import CallBus
package import CallCore
package import CallTelemetry
internal import CallWire
package import Logging
package import NIOCore
public import ServiceLifecycle
internal import Synchronization

/// An edge: it terminates devices' connections, authenticates devices, and passes their commands to shards and the
/// shards' deliveries to devices. It has no state of calls, and loses nothing when it crashes.
public final class EdgeNode<Bus: ClusterBus>: Service {
  let configuration: EdgeConfiguration
  let bus: Bus
  let shared: EdgeShared
  private let eventLoops: (any EventLoopGroup)?
  private let currentPhase = Mutex(EdgePhase.starting)
  /// Set once: the port that the edge listens at, or why it does not.
  private let port = Mutex<Result<Int, any Error>?>(nil)
  /// Closed when `port` is set.
  private let portIsSet = Inbox<Never>(capacity: 1)
  /// The orders for `handleOrders`. Policy when full: refuse, since operators repeat an order that has no effect.
  let orders = Inbox<EdgeOrder>(capacity: 64)
  /// Closed when the node is asked to stop before it serves.
  private let leaving = Inbox<Never>(capacity: 1)

  /// - Parameters:
  ///   - pushKeys: the cluster's keys for the capabilities that pushes carry. While there are none, requests with a
  ///     capability are answered with `tryAgain`.
  ///   - eventLoops: runs the connections, and outlives the node; nil: as many of its own as the configuration says.
  ///   - exchange: the way from and to the coordinator of this process; nil without one.
  ///   - secret: never used by an edge of the cluster before.
  package init(
    configuration: EdgeConfiguration, bus: Bus, clock: ClusterClock, metrics: MetricsRegistry,
    logger: Logger, pushKeys: PushKeyring = PushKeyring(),
    eventLoops: (any EventLoopGroup)? = nil, exchange: LocalExchange? = nil,
    secret: EdgeSecret = .drawn
  ) {
    self.configuration = configuration
    self.eventLoops = eventLoops
    self.bus = bus
    let logger = logger.with([
      .node: "\(configuration.nodeID)", .edge: "\(String(secret.number, radix: 16))",
    ])
    shared = EdgeShared(
      configuration: configuration, secret: secret, pushKeys: pushKeys,
      registry: metrics, clock: clock, logger: logger, exchange: exchange,
      isBusConnected: { bus.statistics.connected }, send: { bus.publish($0) })
  }

  /// This edge's number in sessions and subjects; new for each object.
  public var incarnation: UInt64 { shared.incarnation }

  /// Set by the task of `handleOrders`, and read by others.
  var phase: EdgePhase {
    get { currentPhase.withLock { $0 } }
    set { currentPhase.withLock { $0 = newValue } }
  }

  /// The port that devices connect to. Waits until the edge listens; one task at a time may wait.
  /// - Throws: why it does not listen; `CancellationError`.
  public var boundPort: Int {
    get async throws {
      while true {
        if let port = port.withLock({ $0 }) { return try port.get() }
        try Task.checkCancellation()
        _ = await portIsSet.next(until: nil)
      }
    }
  }

  /// Sets the port, unless it is set.
  private func setPort(_ result: Result<Int, any Error>) {
    port.withLock { $0 = $0 ?? result }
    portIsSet.close()
  }

  /// Serves until it is asked to shut down, then sends its devices elsewhere over `drainSeconds`.
  /// - Throws: `EdgeError` where it cannot listen; what the bus throws; `CancellationError`.
  public func run() async throws {
    let server = EdgeServer(shared: shared, eventLoops: eventLoops)
    do {
      try await serve(server)
    } catch {
      setPort(.failure(error))
      await server.stop()
      await shared.hooks.client.close()
      throw error
    }
    setPort(.failure(CancellationError()))
    await server.stop()
    await shared.hooks.client.close()
  }

  private func serve(_ server: EdgeServer) async throws {
    let found = try await withGracefulShutdownHandler {
      try await self.leaving.unlessClosed { try await self.subscribe(server.loops) }
    } onGracefulShutdown: { [leaving] in
      leaving.close()
    }
    guard let subscriptions = found else { return }
    defer { for subscription in subscriptions { subscription.cancel() } }
    let dispatcher = try await orderDispatcher(server.loops)
    dispatcher.listen()
    let channel = try await listen(server)
    let bound = channel.localAddress?.port ?? configuration.port
    phase = .serving
    setPort(.success(bound))
    shared.logger.notice(
      "edge listens",
      metadata: .keys([.host: "\(configuration.host)", .port: "\(bound)"]))
    try await server.loops[0].run { [orders] in
      $0.watchReach { orders.offer(.cutOff($0)) }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await self.beat() }
      group.addTask { await dispatcher.run() }
      group.addTask {
        // Also when the task is cancelled, which `handleOrders` notices.
        try? await gracefulShutdown()
        self.orders.offer(.shutDown)
      }
      await self.handleOrders(server)
      try? await channel.close().get()
      // When cancelled, there is no time to wait for peers.
      try Task.checkCancellation()
      await waitForPeers(server)
      for loop in server.loops { try? await loop.run { $0.closeAll() } }
      group.cancelAll()
    }
    beat(.gone)
  }

  private func listen(_ server: EdgeServer) async throws -> any Channel {
    do {
      return try await server.listen()
    } catch {
      throw EdgeError(
        "the edge cannot listen at \(configuration.host):\(configuration.port) (\(error)); "
          + "choose an address of this machine and a port that is free")
    }
  }

  // MARK: Heartbeats

  /// Publishes heartbeats until the task is cancelled.
  private func beat() async throws {
    let interval = Duration.microseconds(configuration.heartbeatInterval.microseconds)
    while !Task.isCancelled {
      beat(phase.heartbeat)
      try? await Task.sleep(for: interval)
    }
  }

  func beat(_ state: NodeState) {
    bus.publish(
      shared.subjects.heartbeats(of: "edge"),
      ClusterCodec.encode(
        Heartbeat(
          node: configuration.nodeID, role: .edge, incarnation: incarnation, state: state,
          version: configuration.version, shardCount: UInt32(configuration.shardCount))))
  }
}

/// Why an edge cannot run.
public struct EdgeError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  init(_ message: String) { self.message = message }
  public var description: String { message }
}
