internal import CallBus
package import CallCoordinator
package import CallCore
package import CallTelemetry
internal import CallWire

extension CoordinatorNode: SimProgram where Bus == SimBus {}

/// A coordinator of the world: the real one, on simulated time, bus and store.
package final class SimCoordinator: SimService<CoordinatorNode<SimBus>>, @unchecked Sendable {
  /// Called with each process's bus before the process starts: for sabotage.
  package var onConnect: ((SimBus) -> Void)?
  /// The edge that each of its processes also is; nil: it is only a coordinator.
  package private(set) weak var edge: SimEdge?
  private let nats: SimNATS
  private let options: SimCoordinatorOptions
  private var random: SimRandom
  /// Frozen processes of this name that were replaced.
  private var strays: [Process] = []
  /// Each process's counter of bugs that its state machines detected.
  package private(set) var internalFaults: [Counter] = []

  package init(name: String, nats: SimNATS, options: SimCoordinatorOptions) {
    self.nats = nats
    self.options = options
    random = nats.world.fork("coordinator.\(name)")
    super.init(name: name, world: nats.world, faultPrefix: "fault.")
  }

  /// From its next start on, each of its processes is also one of the edge, and both exchange values.
  func share(with edge: SimEdge) {
    self.edge = edge
    edge.host = self
  }

  /// Starts a new process, with a new incarnation and clocks of its own.
  package override func start() {
    guard current == nil else { return }
    let node = world.makeNode(
      name, skew: random.skew(options.skewMost),
      drift: random.number(-options.driftMost...options.driftMost))
    let bus = nats.connect(node: node)
    onConnect?(bus)
    let exchange = edge == nil ? nil : nats.exchange(of: node, shardCount: options.shardCount)
    let program = CoordinatorNode(
      configuration: options.configuration(nodeID: name), bus: bus, clock: node.clock(),
      metrics: MetricsRegistry(), logger: SimLog.logger(world, name), exchange: exchange,
      incarnation: random.next() | 1)
    internalFaults.append(program.metrics.internalFaults)
    launch(program, on: node)
    edge?.start(on: node, bus, exchange)
  }

  package override func crash() {
    super.crash()
    edge?.crash(silently: false)
  }

  package override func freeze() {
    super.freeze()
    edge?.disturb()
  }

  package override func thaw() {
    super.thaw()
    edge?.disturb()
  }

  /// The edge goes first.
  package override func shutDown() {
    guard let edge, edge.state == .running else { return super.shutDown() }
    edge.drain(over: random.span(.milliseconds(200), .seconds(1)))
  }

  /// Starts a new process of the same name in place of a frozen one, which thaws later, as when a
  /// machine that was given up comes back.
  package func replaceFrozen(thawAfter span: Span) {
    guard isFrozen, edge == nil, let process = current else { return }
    world.incident(name, "is replaced while it stands still")
    world.count("fault.replaced while frozen")
    current = nil
    strays.append(process)
    start()
    later(span) { coordinator in
      guard process.node.state == .frozen else { return }
      coordinator.world.incident(coordinator.name, "a former process thaws")
      process.node.thaw()
    }
    later(span + .seconds(2)) { coordinator in
      guard coordinator.strays.contains(where: { $0 === process }) else { return }
      coordinator.strays.removeAll { $0 === process }
      coordinator.kill(process)
    }
  }

  override func didEnd(_ process: Process, _ failure: (any Error)?) {
    world.count(failure == nil ? "coordinator.ended" : "coordinator.failed")
    strays.removeAll { $0 === process }
    guard edge != nil else { return }
    // Devices need the edge, so a supervisor starts it again.
    later(.milliseconds(100)) {
      if let edge = $0.edge, edge.node === process.node { edge.crash(silently: false) }
      $0.start()
    }
  }

  package override func destroy() {
    super.destroy()
    for process in strays { kill(process) }
    strays.removeAll()
  }
}

extension SimNATS {
  /// An exchange within a process. Observers see its parcels as the messages that they replace.
  func exchange(of node: SimNode, shardCount: Int) -> LocalExchange {
    let subjects = Subjects(cluster: SimOptions.cluster, shardCount: shardCount)
    let exchange = LocalExchange { [unowned self] parcel in
      let message =
        switch parcel {
        case .commands(let batch, let shard):
          BusMessage(subject: subjects.commands(shard: shard), bytes: ClusterCodec.encode(batch))
        case .items(let items, let edge):
          BusMessage(
            subject: subjects.replies(to: edge),
            bytes: ClusterCodec.encode(EdgeBatch(items: items)))
        }
      for look in observers.published {
        look(node, OutgoingMessage(subject: message.subject, bytes: message.bytes))
      }
      for look in observers.delivered { look(node, message) }
    }
    node.onDeath { exchange.close() }
    return exchange
  }
}

/// The configuration of a world's coordinators. Its times are short, so that much happens in a minute.
package struct SimCoordinatorOptions: Sendable {
  package var cluster = "sim"
  package var shardCount = 8
  package var workers = 1
  package var limits = CallLimits()
  /// nil: edges are trusted, as during an upgrade.
  package var authority: CommandAuthority?
  package var checkpointEveryRecords = 40
  /// Whether events are kept for webhooks.
  package var keepsEvents = false
  /// The largest error of a node's wall clock, either way.
  package var skewMost = Span.milliseconds(1500)
  /// The largest drift of its clock, in millionths, either way.
  package var driftMost = 200

  package init() {}

  package func configuration(nodeID: String) -> CoordinatorConfiguration {
    var configuration = CoordinatorConfiguration(
      nodeID: nodeID, cluster: cluster, version: "simulated")
    configuration.shardCount = shardCount
    configuration.workers = workers
    configuration.workersShareThread = true
    configuration.limits = limits
    if !keepsEvents { configuration.events.kept = .zero }
    configuration.authority = authority
    configuration.sessionTickets = authority == nil ? .offered : .required
    configuration.heartbeatInterval = .milliseconds(200)
    configuration.leaseTimeout = .milliseconds(1200)
    configuration.settleTime = .milliseconds(400)
    configuration.announceTimeout = .milliseconds(600)
    configuration.announceTimeoutWithoutEdges = .milliseconds(400)
    configuration.claimRetry = .milliseconds(300)
    configuration.askForSessionsAgain = [.milliseconds(600), .seconds(2), .seconds(8)]
    configuration.checkpointEveryRecords = checkpointEveryRecords
    configuration.checkpointEveryBytes = 8_000
    configuration.checkpointEvery = .seconds(15)
    configuration.checkpointRetry = .seconds(1)
    configuration.releaseTimeout = .seconds(2)
    configuration.shutdownTimeout = .seconds(5)
    configuration.journal.appendTimeout = .milliseconds(800)
    return configuration
  }
}
