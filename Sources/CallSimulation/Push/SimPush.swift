internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallPush

/// Push in a world: gateways, providers, phones, and their faults. Half of the worlds have it.
final class SimPush: FaultSource {
  let world: SimWorld
  private let nats: SimNATS
  private let options: SimOptions
  let provider: SimProvider
  let gateways: [SimGateway]
  let people: SimPushPeople
  let phones: SimPhones
  var random: SimRandom
  private(set) var isActive = false
  /// One provider, or the gateways, are in trouble from now until a time.
  var onTrouble: (PushLane?, _ until: Timestamp) -> Void = { _, _ in }

  init(
    _ nats: SimNATS, _ options: SimOptions, _ edges: [SimEdge],
    device: @escaping (Who) -> SimDevice?
  ) {
    let world = nats.world
    self.world = world
    self.nats = nats
    self.options = options
    random = world.fork("push ground")
    let provider = SimProvider(world)
    self.provider = provider
    gateways = (1...random.number(1...2)).map {
      SimGateway(name: "g\($0)", nats: nats, options: options, provider: provider)
    }
    let people = SimPushPeople(world, provider)
    self.people = people
    phones = SimPhones(world, edges, device: device) { people.profile($0) }
    provider.onDelivery = { [unowned self] in phones.received($0, $1) }
  }

  var nodes: [SimNode] { gateways.compactMap(\.node) }

  func begin() {
    isActive = true
    every(options.intensity.seconds(9, 9, 4)) { $0.trouble() }
    every(options.intensity.seconds(7, 7, 4)) { $0.changeMood() }
  }

  func end() {
    isActive = false
    people.end()
    phones.isCalm = true
    provider.heal()
    for gateway in gateways { gateway.recover() }
  }

  // MARK: Gateways

  private func trouble() {
    guard let gateway = random.pick(gateways.filter { $0.isRunning && !$0.isFrozen }) else {
      random.pick(gateways)?.start()
      return
    }
    let pause = random.span(.milliseconds(50), .seconds(5))
    // An orderly shutdown takes two seconds, and the restart follows in the third.
    let until = world.now + max(pause, .seconds(4))
    onTrouble(nil, until)
    provider.gatewaysTroubled = max(provider.gatewaysTroubled, until)
    switch random.below(5) {
    case 0, 1:
      gateway.crash()
      laterIfActive(pause) { _ in gateway.start() }
    case 2, 3: gateway.freeze(for: pause)
    default:
      gateway.shutDown()
      laterIfActive(.seconds(3)) { _ in gateway.start() }
    }
  }

  // MARK: Providers

  private func changeMood() {
    let lanes: [PushLane] = [.apnsProduction, .apnsProduction, .apnsSandbox, .fcm, .webPush]
    guard let lane = random.pick(lanes) else { return }
    let moods: [SimProvider.Mood] = [.slow, .silent, .refusing, .pausing, .forgetful, .forgetful]
    provider.set(lane, random.pick(moods) ?? .slow)
    let span = random.span(.seconds(1), .seconds(8))
    onTrouble(lane, world.now + span)
    laterIfActive(span) { $0.provider.set(lane, .up) }
  }

  // MARK: The end

  /// A job that is left in the work queue after everything has settled; nil: none.
  func unsettledJob() -> String? {
    for lane in PushLane.allCases {
      let depth = nats.work.depth(lane: lane.rawValue)
      if depth > 0 { return "\(depth) push jobs of \(lane.rawValue) never came to an end" }
    }
    return nil
  }

  func tearDown() { for gateway in gateways { gateway.destroy() } }
}
