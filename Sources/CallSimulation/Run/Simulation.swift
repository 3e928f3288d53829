internal import CallBus
internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

/// One world from its beginning to its end: coordinators, edges, devices, people, faults, and the
/// checkers that look on.
package final class Simulation {
  package let seed: UInt64
  package let world: SimWorld
  let options: SimOptions
  private let sabotage: Sabotage?
  let nats: SimNATS
  package let coordinators: [SimCoordinator]
  let edges: [SimEdge]
  let faults: SimFaults
  let outages: SimOutages
  let workload: Workload
  var checker: HistoryChecker
  let coverage: SimCoverage
  /// The processes of coordinators at the last look for trouble.
  var lastNodes: [Int?]
  var lastLook: Timestamp
  let invariants: StoreInvariants
  package var random: SimRandom
  var links = 0
  var lines: [Int: SimLine] = [:]
  var tampering: Tampering?
  var devices: [Who: SimDevice] = [:]
  var push: SimPush?
  /// Whether edges still crash, freeze and drain.
  package internal(set) var isActive = true
  var taken: SimRogueEdge?

  package init(
    seed: UInt64, options base: SimOptions, sabotage: Sabotage? = nil, trace: SimTrace = SimTrace()
  ) {
    self.seed = seed
    self.sabotage = sabotage
    world = SimWorld(seed: seed, trace: trace)
    random = world.fork("simulation")
    func needs(_ what: Sabotage.Needs) -> Bool { sabotage?.facts.needs.contains(what) == true }
    var options = base
    let isBusyByChance = random.chance(0.3)
    options.limits.busyWhileInCall = isBusyByChance || needs(.busyWhileInCall)
    var crowd = world.fork("crowd")
    options.mostly =
      sabotage != nil
      ? sabotage?.facts.calls : crowd.chance(0.4) ? crowd.pick(CallScript.Kind.crowded) : nil
    var part = world.fork("ongoing")
    options.showsOngoing = part.chance(0.5) || needs(.ongoing)
    var past = world.fork("history")
    options.keepsHistory = needs(.history) || (sabotage == nil && past.chance(0.5))
    var hook = world.fork("hook")
    if needs(.hook) || (sabotage == nil && hook.chance(0.4)) {
      options.hasHook = true
      world.count("world.with a hook")
    }
    var lot = world.fork("users and their server")
    if needs(.rules) || (sabotage == nil && lot.chance(0.3)) {
      options.hasRules = true
      world.count("world.with rules")
    }
    if needs(.server) || (sabotage == nil && lot.chance(0.3)) {
      options.hasServer = true
      world.count("world.with an app's server")
    }
    if sabotage == nil { options.secondCalls = lot.pick([nil, nil, nil, .allow, .busy]) ?? nil }
    var ring = world.fork("forwarded ring")
    if needs(.callersTime) || (sabotage == nil && ring.chance(0.3)) {
      options.forwardedRing = .caller
      world.count("world.with callers' times")
    }
    var forgets = world.fork("apps that forget")
    if needs(.appsForget) || (sabotage == nil && forgets.chance(0.3)) {
      options.appsForget = true
      world.count("world.with apps that forget")
    }
    var backs = world.fork("calls back")
    if needs(.callsBack) || (sabotage == nil && backs.chance(0.3)) {
      options.callsBack = true
      world.count("world.with calls back")
    }
    var webhooks = world.fork("webhooks")
    if needs(.webhooks) || (sabotage == nil && webhooks.chance(0.4)) {
      options.hasWebhooks = true
      world.count("world.with webhooks")
    }
    self.options = options
    nats = SimNATS(world)
    if options.hasGroups {
      SimGroups.put(into: &nats.store, shardCount: options.shardCount)
    }
    var setup = SimCoordinatorOptions()
    setup.shardCount = options.shardCount
    setup.limits = options.limits
    setup.keepsEvents = options.hasWebhooks
    if sabotage != .ticketsNotChecked { setup.authority = options.authority }
    setup.workers = random.number(1...3)
    let count = random.number(3...5)
    let (world, nats) = (world, nats)
    invariants = StoreInvariants(nats, app: SimOptions.app, options: setup)
    coordinators = (1...count).map {
      SimCoordinator(name: "c\($0)", nats: nats, options: setup)
    }
    edges = (1...random.number(2...3)).map {
      SimEdge(name: "e\($0)", nats: nats, options: options)
    }
    faults = SimFaults(nats, coordinators, options.intensity)
    outages = SimOutages(nats, edges, options.intensity)
    workload = Workload(world, options)
    var bounds = HistoryChecker.Bounds()
    bounds.skew = Span(microseconds: 2 * setup.skewMost.microseconds)
    bounds.waitForDevices = min(options.limits.reattachGrace, options.limits.resumeGraceRinging)
    checker = HistoryChecker(bounds: bounds)
    checker.liveCallsPerDevice = options.limits.liveCallsPerDevice
    checker.keepsRecords = true
    if options.hidesStores { checker.sight = [.apps] }
    checker.keepsHistory = options.keepsHistory
    checker.hasWebhooks = options.hasWebhooks
    checker.hasHook = options.hasHook
    checker.busyWhileInCall = options.busyWhileInCall
    checker.forwardedRing = options.forwardedRing
    checker.ringTimeout = options.limits.ringTimeout
    checker.resumeGrace = options.limits.resumeGraceAnswered
    checker.shardCount = options.shardCount
    checker.devicesPerUser = options.limits.devicesPerUser
    coverage = SimCoverage(world, options)
    lastNodes = coordinators.map { _ in nil }
    lastLook = world.now
    var draw = world.fork("push")
    if needs(.push) || draw.chance(0.5) {
      push = SimPush(nats, options, edges) { [unowned self] in devices[$0] }
      push?.provider.givesUp = sabotage == .pushGivenUp
    }
    var shared = world.fork("shared processes")
    if sabotage == nil, shared.chance(0.4) {
      for (coordinator, edge) in zip(coordinators, edges).prefix(shared.number(1...2)) {
        coordinator.share(with: edge)
      }
      world.count("world.processes with both roles")
    }
    var chosen = world.fork("taken")
    if needs(.rogueEdge) || (sabotage == nil && chosen.chance(0.3)) {
      // A subscription of the world's own bus is never refused.
      taken = try? SimRogueEdge(nats, options)
    }
    prepare()
  }

  private func prepare() {
    let (coordinators, edges) = (coordinators, edges)
    faults.otherNodes = { [unowned self] in
      edges.filter { $0.host == nil }.compactMap(\.node) + (push?.nodes ?? [])
    }
    workload.push = push?.people
    if options.hasRules || options.hasServer {
      let server = SimAppServer(world, edges, options)
      server.onEvent = { [unowned self] in note(.server($0)) }
      workload.server = server
    }
    faults.onDisturbance = { [unowned self] in disturbed($0, until: $1) }
    outages.onDisturbance = faults.onDisturbance
    outages.nodes = { [unowned self] in
      (coordinators.compactMap(\.node) + faults.otherNodes()).filter { $0.state != .dead }
    }
    for edge in edges {
      edge.onHookReply = { [unowned self, name = edge.name] call, reply in
        world.note("hook", call: call, "says \(reply) to \(name)")
        note(.server(.hook(call, reply)))
      }
      edge.onDisturbance = { [unowned self] socket in
        for line in lines.values where line.socket === socket { disturbed(line) }
      }
    }
    if let sabotage {
      tampering = Tampering(
        sabotage, world, nats, coordinators, edges, credential: options.credential)
    }
    observe()
    let options = options
    workload.populate { [unowned self] who in
      let device = SimDevice(who: who, world: world, edges: edges, options: options, observer: self)
      devices[who] = device
      return device
    }
    for coordinator in coordinators { coordinator.start() }
    for edge in edges { edge.start() }
    if let push { prepare(push) }
  }

  private func disturbed(_ node: SimNode, until: Timestamp) {
    checker.calendar.add(from: world.now, until: until)
    note(.trouble(node: node.name, from: world.now, until: until))
    for line in lines.values where line.edge.node === node { disturbed(line) }
  }
}
