internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallPush
internal import CallTelemetry
internal import Logging

/// A push gateway of the world: the real one, on simulated time, bus and work queue, with senders that
/// lead to the simulated provider. It crashes with jobs in hand, freezes, is shut down, and comes back
/// as a new process.
///
/// Touched by the world's thread only, which is why it may cross isolations.
final class SimGateway: @unchecked Sendable {
  private final class Process: @unchecked Sendable {
    let node: SimNode
    let gateway: PushGateway<SimBus>
    var task: Task<Void, Never>?
    var isLeaving = false
    init(node: SimNode, gateway: PushGateway<SimBus>) {
      self.node = node
      self.gateway = gateway
    }
  }

  let name: String
  private let world: SimWorld
  private let nats: SimNATS
  private let options: SimOptions
  private let provider: SimProvider
  private var random: SimRandom
  private var current: Process?
  /// Processes whose tasks must still unwind.
  private var ghosts: [Process] = []

  init(
    name: String, world: SimWorld, nats: SimNATS, options: SimOptions, provider: SimProvider
  ) {
    self.name = name
    self.world = world
    self.nats = nats
    self.options = options
    self.provider = provider
    random = world.fork("gateway.\(name)")
  }

  var node: SimNode? { current?.node }
  var isRunning: Bool { current != nil }
  var isFrozen: Bool { current?.node.state == .frozen }
  var isLeaving: Bool { current?.isLeaving ?? false }
  var ghostCount: Int { ghosts.count }

  // MARK: Life

  func start() {
    guard current == nil else { return }
    let node = world.makeNode(name, skew: options.skew(&random))
    var configuration = PushGatewayConfiguration(
      nodeID: name, cluster: SimOptions.cluster, version: "simulated")
    configuration.shardCount = options.shardCount
    configuration.drain = .seconds(2)
    // Few places, so that a provider that does not answer fills them.
    configuration.sendsPerPool = random.number(2...8)
    configuration.waitingPerPool = random.number(2...8)
    let gateway = PushGateway(
      configuration: configuration, bus: nats.connect(node: node), clock: node.clock(),
      metrics: MetricsRegistry(), logger: SimLog.logger(world, name), pools: pools(node),
      keyring: PushKeyring(options.pushKeys), peer: PeerKind.gateway.number(random.next())
    ) { [provider] job, capability, id in
      let outcome = PayloadEncoder.encode(PushContent(job: job, capability: capability))
      guard case .payload(let payload) = outcome else {
        return .none(outcome.rejection ?? .rejected(reason: "noPayload"))
      }
      provider.written(job, id: id)
      return .message(payload.message(id: id, for: job))
    }
    let process = Process(node: node, gateway: gateway)
    current = process
    world.fate(name, "starts")
    process.task = node.start { [weak self] in
      var failure: (any Error)?
      do { try await gateway.run() } catch { failure = error }
      self?.ended(process, failure)
    }
  }

  private func pools(_ node: SimNode) -> [GatewayPool] {
    func pool(
      _ lane: PushLane, _ provider: PushProvider, _ serves: @escaping @Sendable (PushToken) -> Bool
    ) -> GatewayPool {
      GatewayPool(
        name: lane.rawValue, lane: lane,
        sender: SimSender(provider: self.provider, lane: lane, process: node),
        statistics: SenderStatistics(name: lane.rawValue, provider: provider), serves: serves)
    }
    return [
      pool(.apnsProduction, .apns) {
        $0.provider == .apns && $0.topic.hasPrefix(SimPushProfile.topic)
      },
      pool(.fcm, .fcm) { $0.provider == .fcm },
      pool(.webPush, .webPush) { $0.provider == .webPush },
    ]
  }

  // MARK: Fate

  func crash() {
    guard let process = current else { return }
    current = nil
    world.fate(name, "crashes")
    world.count("fault.gateway crash")
    if provider.isAwaited(by: process.node) { world.count("fault.gateway crash with jobs") }
    kill(process)
  }

  private func kill(_ process: Process) {
    if process.task != nil { ghosts.append(process) }
    process.node.kill()
    process.task?.cancel()
  }

  func freeze() {
    guard let process = current, process.node.state == .running else { return }
    world.fate(name, "freezes")
    world.count("fault.gateway freeze")
    process.node.freeze()
  }

  func thaw() {
    guard isFrozen else { return }
    world.fate(name, "thaws")
    current?.node.thaw()
  }

  /// Lets what is under way finish, gives the rest back, ends.
  func shutDown() {
    guard let process = current, !process.isLeaving else { return }
    world.fate(name, "shuts down")
    world.count("fault.gateway shutdown")
    process.isLeaving = true
    process.gateway.beginShutdown()
  }

  private func ended(_ process: Process, _ failure: (any Error)?) {
    process.task = nil
    ghosts.removeAll { $0 === process }
    guard process.node.state != .dead else { return }
    world.fate(name, failure.map { "ended: \($0)" } ?? "ended")
    // What it said last still leaves.
    world.schedule(after: .milliseconds(20), "gateway ends") { process.node.kill() }
    if current === process { current = nil }
  }

  func destroy() {
    if let process = current { kill(process) }
    current = nil
  }
}
