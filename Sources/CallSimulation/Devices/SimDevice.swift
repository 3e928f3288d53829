package import CallClient
package import CallCore
package import CallJudge
package import CallWire

/// A device of the world: the real client on simulated sockets, used by a person. It loses its
/// network, sleeps, is switched off and comes back.
package final class SimDevice {
  package let who: Who
  package let world: SimWorld
  private let options: SimOptions
  let edges: [SimEdge]
  /// nil once the world is over.
  private(set) weak var observer: (any SimDeviceObserver)?
  private var random: SimRandom
  private var processes = 0
  private var forgets: SimRandom
  /// This run of the app shows no call of a former one.
  private var isForgetful = false
  package private(set) var node: SimNode?
  private var loop: SimEventLoop?
  private var driver: DeviceDriver?
  private var network: SimDeviceNetwork?
  /// The call of a push, for which the next attach asks.
  package var wokenFor: CallID?
  package var registers = true

  package init(
    who: Who, world: SimWorld, edges: [SimEdge], options: SimOptions,
    observer: any SimDeviceObserver
  ) {
    self.who = who
    self.world = world
    self.edges = edges
    self.options = options
    self.observer = observer
    random = world.fork("device.\(who)")
    forgets = world.fork("app that forgets.\(who)")
  }

  // MARK: State

  package var isOn: Bool { driver != nil }
  package var isAsleep: Bool { node?.state == .frozen }
  package var isAttached: Bool { driver?.machine.isAttached ?? false }
  package var calls: [CallID: CallView] { driver?.machine.calls ?? [:] }
  package var line: SimLine? { network?.line }

  /// Whether the app shows the call as one that rings.
  package func rings(_ call: CallID) -> Bool {
    guard let view = calls[call] else { return false }
    return view.role == .callee && !view.isEnded && !view.won && view.phase == .ringing
  }

  /// Whether a former run of the app had the call, and this one does not show it.
  package func ignores(_ call: CallID) -> Bool {
    isForgetful && calls[call]?.isUnclaimed ?? false
  }

  /// Whether this run of the app knows nothing of a call that a former one may have had.
  package func forgot(_ call: CallID) -> Bool {
    isForgetful && calls[call]?.isUnclaimed ?? true
  }

  // MARK: Life

  package func start() { start(for: nil) }

  /// A push announces a call: the app starts, if it does not run, and asks for the call's state.
  package func woken(for call: CallAddress) {
    guard let driver, let node else { return start(for: call) }
    node.arrive { driver.woken(for: call.call, callee: call.callee) }
  }

  private func start(for call: CallAddress?) {
    guard driver == nil, let observer else { return }
    processes += 1
    isForgetful = options.appsForget && processes > 1 && forgets.chance(0.5)
    // No rule depends on a device's clock, so it may be far off.
    let node = world.makeNode("\(who)", skew: random.skew(.seconds(3600)))
    let loop = SimEventLoop(node)
    let network = SimDeviceNetwork(self, loop, process: processes)
    var configuration = ClientMachine.Configuration(
      edges: edges.indices.map(SimDeviceNetwork.address(of:)),
      token: options.token(of: who.user), device: who.device)
    configuration.firstEdge = random.below(edges.count)
    configuration.deviceName = who.device
    configuration.onlyPlaces = SimOptions.onlyPlaces(who)
    configuration.wantsOngoing = options.showsOngoing && SimOptions.asksForOngoing(who)
    configuration.wantsHistory = options.keepsHistory
    configuration.endedCallsMax = 64
    // The checker judges what the cluster says of calls.
    configuration.ringGrace = nil
    configuration.backoffMaximum = .seconds(4)
    configuration.attachTimeout = .seconds(5)
    let seed = random.next()
    let driver = DeviceDriver(configuration) {
      DeviceHost(loop: SimDeviceLoop(loop), network: network, seed: seed)
    } onEvent: { [weak self] event in
      if let self { self.observer?.told(self, event) }
    }
    self.node = node
    self.loop = loop
    self.network = network
    self.driver = driver
    observer.started(self)
    world.incident("\(who)", call: call?.call, "app starts")
    if let call {
      driver.woken(for: call.call, callee: call.callee)
    } else {
      driver.start()
    }
  }

  /// Kills the app. The kernel closes its connection, or it falls silent with the phone.
  package func kill(silently: Bool) {
    guard driver != nil else { return }
    world.incident("\(who)", silently ? "is switched off" : "app is killed")
    let lines = network?.lines ?? []
    node?.kill()
    for line in lines {
      line.socket?.lose(silently: silently)
      if line.isOpen { line.close(abruptly: true) }
    }
    driver = nil
    network = nil
    loop = nil
    node = nil
  }

  package func leave() {
    guard let driver, !isAsleep else { return }
    world.incident("\(who)", "signs off")
    driver.stop()
    loop?.post(after: .milliseconds(200)) { [weak self] in self?.kill(silently: false) }
  }

  /// The phone suspends the app: its connection stays open, and nothing is read.
  package func sleep() {
    guard let node, node.state == .running else { return }
    world.incident("\(who)", "sleeps")
    for line in network?.lines ?? [] { observer?.disturbed(line) }
    node.freeze()
  }

  package func wake() {
    guard let node, node.state == .frozen else { return }
    world.incident("\(who)", "wakes")
    node.thaw()
    for line in network?.lines ?? [] { observer?.disturbed(line) }
  }

  package func breakLink(silently: Bool) {
    let open = (network?.lines ?? []).filter { $0.isOpen && $0.socket != nil }
    if !open.isEmpty {
      world.incident("\(who)", silently ? "connection falls silent" : "connection breaks")
    }
    for line in open {
      observer?.disturbed(line)
      line.socket?.lose(silently: silently)
    }
  }

  /// Takes the network away for a while: connections fall silent, and new ones fail.
  package func goOffline(for span: Span) {
    guard let network else { return }
    breakLink(silently: true)
    network.isOffline = true
    world.schedule(after: span) { [weak network] in network?.isOffline = false }
  }

  func takeWokenFor() -> CallID? { wokenFor.take() }

  package func comeOnline() { network?.isOffline = false }

  // MARK: The user's actions

  package func submit(_ command: ClientCommand) {
    guard let driver, let node, node.state == .running else { return }
    node.arrive { driver.submit(command) { _ in } }
  }

  /// The address under which this device refers to a call.
  package func address(_ call: CallID) -> CallAddress {
    driver?.machine.address(call) ?? CallAddress(call: call)
  }

  package func after(_ span: Span, _ body: @escaping () -> Void) { loop?.post(after: span, body) }
}

/// A device's time: its own clock, and timers that run while it does.
private final class SimDeviceLoop: DeviceLoop {
  private let loop: SimEventLoop
  init(_ loop: SimEventLoop) { self.loop = loop }

  var now: Timestamp { loop.node.timers.localTime }

  func schedule(at time: Timestamp, _ action: @escaping () -> Void) {
    loop.post(after: max(Span(microseconds: 0), time - now), action)
  }
}
