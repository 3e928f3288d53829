package import CallAuth
package import CallBus
package import CallCore
package import CallTelemetry
package import CallWire
package import Logging
package import NIOCore

/// An edge without a socket, a thread and a clock of its own: all that an `EdgeNode` does with its
/// connections and with the cluster, for whoever brings these along. The simulation does.
///
/// Everything happens on one event loop, on which all of this is to be called.
package final class LooseEdge<Bus: ClusterBus> {
  private let node: EdgeNode<Bus>
  private let loop: LoopHandle
  private var subscriptions: [any BusSubscription] = []

  /// - Parameter secret: never used by an edge of the cluster before.
  package init(
    configuration: EdgeConfiguration, bus: Bus, clock: ClusterClock, secret: EdgeSecret,
    eventLoop: any EventLoop, metrics: MetricsRegistry, logger: Logger,
    pushKeys: PushKeyring = PushKeyring()
  ) {
    node = EdgeNode(
      configuration: configuration, bus: bus, clock: clock, metrics: metrics, logger: logger,
      pushKeys: pushKeys, secret: secret)
    loop = LoopHandle(index: 0, eventLoop: eventLoop, shared: node.shared)
  }

  package var incarnation: UInt64 { node.incarnation }
  /// Sessions, closing ones too, and waiting requests.
  package var openCount: Int { loop.onLoop.openCount }
  package var pendingCommands: Int { loop.onLoop.pendingCommands }

  /// Begins to serve.
  package func start() throws {
    subscriptions = try node.subscribeSessions([loop])
    loop.onLoop.start()
    loop.onLoop.watchReach { [loop] isCutOff in loop.onLoop.reachChanged(isCutOff) }
  }

  /// A device connects: `channel` is active, lives on the event loop, and has no handlers yet.
  package func accept(_ channel: any Channel) throws { try loop.serve(channel) }

  /// Tells the cluster that this edge lives.
  package func beat(_ state: NodeState) { node.beat(state) }

  /// Tells every session to go elsewhere; nobody attaches from now on.
  /// - Returns: how many sessions there are.
  package func beginDrain(over span: Span) -> Int { loop.onLoop.beginDrain(over: span) }

  /// Closes sessions until at most `count` are left.
  package func closeSessions(leaving count: Int) { loop.onLoop.closeSessions(leaving: count) }

  /// To be called when the process is gone, without a word: lets go of connections, which hold the loop
  /// as it holds them. Good for as long as anything of the edge is left.
  package var farewell: () -> Void {
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
