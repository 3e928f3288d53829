package import CallAuth
package import CallBus
package import CallCore
package import CallTelemetry
package import CallWire
package import Logging
package import NIOCore

/// An edge for the simulation and for fuzzing: all that an `EdgeNode` does with its connections and with the
/// cluster, on channels, an event loop and a clock that the caller provides.
///
/// All methods are to be called on that event loop.
package final class EmbeddedEdge<Bus: ClusterBus> {
  private let node: EdgeNode<Bus>
  private let loop: LoopHandle
  private var subscriptions: [any BusSubscription] = []

  /// - Parameter secret: never used by an edge of the cluster before.
  package init(
    configuration: EdgeConfiguration, bus: Bus, clock: ClusterClock, secret: EdgeSecret,
    eventLoop: any EventLoop, metrics: MetricsRegistry, logger: Logger,
    pushKeys: PushKeyring = PushKeyring(), exchange: LocalExchange? = nil
  ) {
    node = EdgeNode(
      configuration: configuration, bus: bus, clock: clock, metrics: metrics, logger: logger,
      pushKeys: pushKeys, exchange: exchange, secret: secret)
    loop = LoopHandle(index: 0, eventLoop: eventLoop, shared: node.shared)
  }

  package var incarnation: UInt64 { node.incarnation }
  /// Sessions, closing ones too, and requests that wait for replies.
  package var openCount: Int { loop.onLoop.openCount }
  package var pendingCommands: Int { loop.onLoop.pendingCommands }

  /// Begins to serve.
  /// - Throws: why it cannot subscribe.
  package func start() throws {
    subscriptions = try node.subscribeSessions([loop])
    loop.onLoop.start()
    loop.onLoop.watchReach { [loop] isCutOff in loop.onLoop.reachChanged(isCutOff) }
  }

  /// A device connects.
  /// - Parameter channel: active, on the event loop, and without handlers.
  /// - Throws: why the channel has to be closed.
  package func accept(_ channel: any Channel) throws { try loop.serve(channel) }

  /// Publishes a heartbeat.
  package func beat(_ state: NodeState) { node.beat(state) }

  /// Begins to send every session elsewhere. No device attaches from now on.
  /// - Returns: how many sessions there are.
  package func beginDrain(over span: Span) -> Int { loop.onLoop.beginDrain(over: span) }

  /// Closes sessions until at most `count` are left.
  package func closeSessions(leaving count: Int) { loop.onLoop.closeSessions(leaving: count) }

  /// Drops all connections, for a process that has crashed. They hold the loop, and the loop holds them. It may be
  /// called after the edge itself was released.
  package var abandon: () -> Void {
    let loop = loop.onLoop
    return { [weak loop] in loop?.abandon() }
  }

  /// Closes every socket and leaves the cluster.
  package func stop() {
    loop.onLoop.closeAll()
    for subscription in subscriptions { subscription.cancel() }
    subscriptions = []
    loop.onLoop.stop()
  }
}
