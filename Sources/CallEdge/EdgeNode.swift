public import CallBus
internal import CallCore
public import CallTelemetry
internal import CallWire
public import Logging
internal import NIOCore
public import ServiceLifecycle

/// Ends device connections: authenticates devices, hands their commands to shards and what shards
/// say to devices. Knows nothing about calls, and can die at any time.
public final class EdgeNode<Bus: ClusterBus>: Service {
  let configuration: EdgeConfiguration
  let bus: Bus
  let shared: EdgeShared
  private let port = OneShot<Int>()

  public convenience init(
    configuration: EdgeConfiguration, bus: Bus, clock: ClusterClock, metrics: MetricsRegistry,
    logger: Logger
  ) {
    self.init(
      configuration: configuration, bus: bus, clock: clock, metrics: metrics, logger: logger,
      incarnation: UInt64.random(in: 1...UInt64.max))
  }

  /// - Parameter incarnation: never used by an edge of the cluster before.
  init(
    configuration: EdgeConfiguration, bus: Bus, clock: ClusterClock, metrics: MetricsRegistry,
    logger: Logger, incarnation: UInt64
  ) {
    self.configuration = configuration
    self.bus = bus
    var logger = logger
    logger[.node] = "\(configuration.nodeID)"
    logger[.edge] = "\(String(incarnation, radix: 16))"
    shared = EdgeShared(
      configuration: configuration, incarnation: incarnation, registry: metrics, clock: clock,
      logger: logger, health: ClusterHealth(shardCount: configuration.shardCount),
      isBusConnected: { bus.statistics.connected }, send: { bus.publish($0) })
  }

  /// This edge's number in sessions and subjects; drawn anew for each object.
  public var incarnation: UInt64 { shared.incarnation }

  /// The port that devices connect to, once the edge listens.
  /// - Throws: why it does not.
  public var boundPort: Int {
    get async throws { try await port.value() }
  }

  /// Serves until it is asked to shut down, then gives its devices up over `drainSeconds`.
  public func run() async throws {
    let server = EdgeServer(shared: shared)
    do {
      try await serve(server)
    } catch {
      port.complete(.failure(error))
      await server.stop()
      throw error
    }
    port.complete(.failure(CancellationError()))
    await server.stop()
  }

  private func serve(_ server: EdgeServer) async throws {
    let state = EdgeStateBox()
    let subscriptions = try await subscribe(server.loops, state)
    defer { for subscription in subscriptions { subscription.cancel() } }
    let channel = try await listen(server)
    let bound = channel.localAddress?.port ?? configuration.port
    port.complete(.success(bound))
    shared.logger.notice(
      "edge listens",
      metadata: .keys([.host: "\(configuration.host)", .port: "\(bound)"]))
    state.set(.serving)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await self.beat(state) }
      do {
        try await gracefulShutdown()
      } catch {
        // Cancelled: there is no time to drain.
        try? await channel.close().get()
        throw error
      }
      await self.drain(server, channel, state)
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

  /// Says that this edge lives, until the task is cancelled.
  private func beat(_ state: EdgeStateBox) async throws {
    let interval = Duration.microseconds(configuration.heartbeatInterval.microseconds)
    while !Task.isCancelled {
      beat(state.value)
      try? await Task.sleep(for: interval)
    }
  }

  func beat(_ state: NodeState) {
    bus.publish(
      shared.subjects.heartbeats,
      ClusterCodec.encode(
        Heartbeat(
          node: configuration.nodeID, role: .edge, incarnation: incarnation, state: state,
          version: configuration.version, shardCount: UInt32(configuration.shardCount))))
  }

  // MARK: The end

  /// Tells every device to go elsewhere, closes the sessions evenly over the time there is, and
  /// waits a little for requests under way.
  private func drain(
    _ server: EdgeServer, _ channel: any Channel, _ state: EdgeStateBox
  ) async {
    shared.logger.notice("edge drains", metadata: .keys([.state: "leaving"]))
    state.set(.leaving)
    beat(.leaving)
    try? await channel.close().get()
    let span = Span.seconds(Int64(max(0, configuration.drainSeconds)))
    var counts: [Int] = []
    for loop in server.loops {
      counts.append((try? await loop.run { $0.beginDrain(over: span) }) ?? 0)
    }
    let steps = max(1, configuration.drainSeconds * 10)
    for step in 1...steps {
      if counts.allSatisfy({ $0 == 0 }) { break }
      for (loop, count) in zip(server.loops, counts) {
        let left = count * (steps - step) / steps
        try? await loop.run { $0.closeSessions(leaving: left) }
      }
      if step < steps { try? await Task.sleep(for: .milliseconds(100)) }
    }
    await settle(server)
    for loop in server.loops { try? await loop.run { $0.closeAll() } }
  }

  /// Until peers have answered their close frames and requests have their replies; two seconds at
  /// most.
  private func settle(_ server: EdgeServer) async {
    for _ in 0..<100 {
      var open = 0
      for loop in server.loops { open += (try? await loop.run { $0.openCount }) ?? 0 }
      if open == 0 { return }
      try? await Task.sleep(for: .milliseconds(20))
    }
  }
}

/// Why an edge cannot run.
public struct EdgeError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  init(_ message: String) { self.message = message }
  public var description: String { message }
}
