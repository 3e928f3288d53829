internal import CallBus
internal import CallCoordinator
package import CallCore
internal import CallTelemetry
internal import Logging

/// A coordinator of the world: the real one, on simulated time, bus and store. It crashes, freezes,
/// is shut down, and comes back as a new process.
///
/// Touched by the world's thread only, which is why it may cross isolations.
package final class SimCoordinator: @unchecked Sendable {
  /// One process of this name, from its start to its end.
  final class Process: @unchecked Sendable {
    let node: SimNode
    let coordinator: CoordinatorNode<SimBus>
    var task: Task<Void, Never>?
    var hasEnded = false
    var isLeaving = false

    init(node: SimNode, coordinator: CoordinatorNode<SimBus>) {
      self.node = node
      self.coordinator = coordinator
    }
  }

  package let name: String
  package let world: SimWorld
  /// Called with the bus of each process before it starts: for sabotage.
  package var onConnect: ((SimBus) -> Void)?
  private let nats: SimNATS
  private let options: SimCoordinatorOptions
  private var random: SimRandom
  private var current: Process?
  /// Processes of this name that were replaced while they stood still.
  private var strays: [Process] = []
  /// Processes whose tasks must still unwind.
  private var ghosts: [Process] = []

  package init(
    name: String, world: SimWorld, nats: SimNATS, options: SimCoordinatorOptions
  ) {
    self.name = name
    self.world = world
    self.nats = nats
    self.options = options
    random = world.fork("coordinator.\(name)")
  }

  /// The running process; nil when there is none.
  package var node: SimNode? { current?.node }
  package var isRunning: Bool { current != nil }
  package var isFrozen: Bool { current?.node.state == .frozen }
  package var isLeaving: Bool { current?.isLeaving ?? false }

  // MARK: Life

  /// Starts a new process, with a new incarnation and clocks of its own.
  package func start() {
    guard current == nil else { return }
    let node = world.makeNode(
      name, skew: skew(), drift: random.number(-options.driftMost...options.driftMost))
    let bus = nats.connect(node: node)
    onConnect?(bus)
    let coordinator = CoordinatorNode(
      configuration: options.configuration(nodeID: name), bus: bus, clock: node.clock(),
      metrics: MetricsRegistry(), logger: SimLog.logger(world, name),
      incarnation: random.next() | 1)
    let process = Process(node: node, coordinator: coordinator)
    current = process
    world.fate(name, "starts")
    process.task = node.start { [weak self] in
      var failure: (any Error)?
      do { try await coordinator.run() } catch { failure = error }
      self?.ended(process, failure)
    }
  }

  private func skew() -> Span {
    let most = options.skewMost.microseconds
    return Span(
      microseconds: random.span(.milliseconds(0), Span(microseconds: 2 * most)).microseconds - most)
  }

  /// The process is gone, without a word.
  package func crash() {
    guard let process = current else { return }
    current = nil
    world.fate(name, "crashes")
    world.count("fault.crash")
    kill(process)
  }

  private func kill(_ process: Process) {
    ghosts.append(process)
    process.node.kill()
    process.task?.cancel()
  }

  /// Stops the process where it stands; time goes on.
  package func freeze() {
    guard let process = current, process.node.state == .running else { return }
    world.fate(name, "freezes")
    world.count("fault.freeze")
    process.node.freeze()
  }

  package func thaw() {
    guard isFrozen else { return }
    world.fate(name, "thaws")
    current?.node.thaw()
  }

  /// Gives all shards up in good order, then ends.
  package func shutDown() {
    guard let process = current, !process.isLeaving else { return }
    world.fate(name, "shuts down")
    world.count("fault.shutdown")
    process.isLeaving = true
    process.coordinator.beginShutdown()
  }

  /// A new process of the same name takes the place of one that stands still, and that goes on
  /// later, as when a machine that was given up comes back.
  package func replaceFrozen(thawAfter span: Span) {
    guard isFrozen, let process = current else { return }
    world.fate(name, "is replaced while it stands still")
    world.count("fault.replaced while frozen")
    current = nil
    strays.append(process)
    start()
    world.schedule(after: span, "stray thaws") { [weak self] in
      guard let self, process.node.state == .frozen else { return }
      world.fate(name, "a former process thaws")
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

  private func ended(_ process: Process, _ failure: (any Error)?) {
    process.hasEnded = true
    process.task = nil
    ghosts.removeAll { $0 === process }
    guard process.node.state != .dead else { return }
    world.fate(name, failure.map { "ended: \($0)" } ?? "ended")
    world.count(failure == nil ? "coordinator.ended" : "coordinator.failed")
    // What it said last still leaves.
    world.schedule(after: .milliseconds(20), "process ends") { process.node.kill() }
    if current === process { current = nil }
    strays.removeAll { $0 === process }
  }

  // MARK: The end of the world

  /// All processes of this name are gone.
  package func destroy() {
    if let process = current { kill(process) }
    current = nil
    for process in strays { kill(process) }
    strays.removeAll()
  }

  /// Processes whose tasks have not ended, though they are dead: none, once the world ran on for a
  /// moment.
  package var ghostCount: Int { ghosts.count }
}

/// The nodes' log, as lines of the trace.
enum SimLog {
  static func logger(_ world: SimWorld, _ node: String) -> Logger {
    var logger = Logger(label: "simulation") { _ in SimLogHandler(world: world, node: node) }
    logger.logLevel = world.trace.isOn ? .debug : .critical
    return logger
  }
}

private struct SimLogHandler: LogHandler {
  let world: SimWorld
  let node: String
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.debug

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    let all = metadata.merging(event.metadata ?? [:]) { _, new in new }
    let details = all.filter { $0.key != "node" }.sorted { $0.key < $1.key }
      .map { "\($0.key)=\($0.value)" }.joined(separator: " ")
    let text = "[\(event.level)] \(event.message) \(details)"
    if event.level >= .notice { world.fate(node, text) } else { world.note(node, text) }
    if event.level == .critical { world.count("log.critical") }
  }
}
