internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallPush
internal import CallTelemetry

extension PushGateway: SimProgram where Bus == SimBus {}

/// A push gateway of the world: the real one, on simulated time, bus and work queue, with senders that
/// lead to the simulated provider.
final class SimGateway: SimService<PushGateway<SimBus>>, @unchecked Sendable {
  private let nats: SimNATS
  private let options: SimOptions
  private let provider: SimProvider
  private var random: SimRandom

  init(name: String, nats: SimNATS, options: SimOptions, provider: SimProvider) {
    self.nats = nats
    self.options = options
    self.provider = provider
    random = nats.world.fork("gateway.\(name)")
    super.init(name: name, world: nats.world, faultPrefix: "fault.gateway ")
  }

  package override func start() {
    guard current == nil else { return }
    let node = world.makeNode(name, skew: options.skew(&random))
    var configuration = PushGatewayConfiguration(
      nodeID: name, cluster: SimOptions.cluster, version: "simulated")
    configuration.shardCount = options.shardCount
    configuration.drain = .seconds(2)
    // Few, so that a silent provider fills them.
    configuration.sendsPerPool = random.number(2...8)
    configuration.waitingPerPool = random.number(2...8)
    let gateway = PushGateway(
      configuration: configuration, bus: nats.connect(node: node), clock: node.clock(),
      metrics: MetricsRegistry(), logger: SimLog.logger(world, name), pools: pools(node),
      keyring: PushKeyring(options.pushKeys), peer: PeerKind.gateway.number(random.next())
    ) { [provider] content in
      let outcome = PayloadEncoder.encode(content)
      if case .payload = outcome {
        provider.written(content.job, id: PushIdentity(content.job).uuid)
      }
      return outcome
    }
    launch(gateway, on: node)
  }

  private func pools(_ node: SimNode) -> [GatewayPool] {
    func pool(
      _ lane: PushLane, _ provider: PushProvider, _ serves: @escaping @Sendable (PushToken) -> Bool
    ) -> GatewayPool {
      GatewayPool(
        name: lane.rawValue, lane: lane,
        sender: SimSender(self.provider, lane, provider, node),
        statistics: SenderStatistics(name: lane.rawValue, provider: provider), serves: serves)
    }
    return [
      pool(.apnsProduction, .apns) {
        $0.provider == .apns && $0.topic.hasPrefix(SimPushProfile.topic)
          && $0.environment != SimPushProfile.sandbox
      },
      pool(.apnsSandbox, .apns) {
        $0.provider == .apns && $0.topic.hasPrefix(SimPushProfile.topic)
          && $0.environment == SimPushProfile.sandbox
      },
      pool(.fcm, .fcm) { $0.provider == .fcm },
      pool(.webPush, .webPush) { $0.provider == .webPush },
    ]
  }

  override func crash() {
    if let node, provider.isAwaited(by: node) { world.count("fault.gateway crash with jobs") }
    super.crash()
  }
}
