internal import CallBus
package import CallCoordinator
package import CallCore
package import CallTelemetry

extension CoordinatorNode: SimProgram where Bus == SimBus {}

/// A coordinator of the world: the real one, on simulated time, bus and store.
package final class SimCoordinator: SimService<CoordinatorNode<SimBus>>, @unchecked Sendable {
  /// Called with each process's bus before the process starts: for sabotage.
  package var onConnect: ((SimBus) -> Void)?
  private let nats: SimNATS
  private let options: SimCoordinatorOptions
  private var random: SimRandom
  /// Frozen processes of this name that were replaced.
  private var strays: [Process] = []
  /// For each process, what its shards' state machines counted as bugs of Callmesh.
  package private(set) var internalFaults: [Counter] = []

  package init(
    name: String, world: SimWorld, nats: SimNATS, options: SimCoordinatorOptions
  ) {
    self.nats = nats
    self.options = options
    random = world.fork("coordinator.\(name)")
    super.init(name: name, world: world, faultPrefix: "fault.")
  }

  /// Starts a new process, with a new incarnation and clocks of its own.
  package func start() {
    guard current == nil else { return }
    let node = world.makeNode(
      name, skew: skew(), drift: random.number(-options.driftMost...options.driftMost))
    let bus = nats.connect(node: node)
    onConnect?(bus)
    let program = CoordinatorNode(
      configuration: options.configuration(nodeID: name), bus: bus, clock: node.clock(),
      metrics: MetricsRegistry(), logger: SimLog.logger(world, name),
      incarnation: random.next() | 1)
    internalFaults.append(program.metrics.internalFaults)
    launch(program, on: node)
  }

  private func skew() -> Span {
    let most = options.skewMost.microseconds
    return Span(
      microseconds: random.span(.milliseconds(0), Span(microseconds: 2 * most)).microseconds - most)
  }

  /// Starts a new process of the same name in place of a frozen one, which thaws later, as when a
  /// machine that was given up comes back.
  package func replaceFrozen(thawAfter span: Span) {
    guard isFrozen, let process = current else { return }
    world.incident(name, "is replaced while it stands still")
    world.count("fault.replaced while frozen")
    current = nil
    strays.append(process)
    start()
    world.schedule(after: span, "stray thaws") { [weak self] in
      guard let self, process.node.state == .frozen else { return }
      world.incident(name, "a former process thaws")
      process.node.thaw()
    }
    world.schedule(at: world.now + span + .seconds(2), "stray dies") { [weak self] in
      self?.end(stray: process)
    }
  }

  private func end(stray process: Process) {
    guard let index = strays.firstIndex(where: { $0 === process }) else { return }
    strays.remove(at: index)
    kill(process)
  }

  override func didEnd(_ process: Process, _ failure: (any Error)?) {
    world.count(failure == nil ? "coordinator.ended" : "coordinator.failed")
    strays.removeAll { $0 === process }
  }

  package override func destroy() {
    super.destroy()
    for process in strays { kill(process) }
    strays.removeAll()
  }
}
