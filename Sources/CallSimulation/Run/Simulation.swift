internal import CallBus
internal import CallClient
package import CallCore
package import CallWire

/// One world from its beginning to its end: coordinators, edges, devices, people, faults, and the
/// checkers that look on.
package final class Simulation {
  package let seed: UInt64
  package let world: SimWorld
  private let options: SimOptions
  private let sabotage: Sabotage?
  let nats: SimNATS
  private let coordinators: [SimCoordinator]
  private let edges: [SimEdge]
  private let faults: SimFaults
  private let outages: SimOutages
  let workload: Workload
  var checker: HistoryChecker
  let coverage: SimCoverage
  private let unrest: Unrest
  let invariants: StoreInvariants
  private var random: SimRandom
  private var links = 0
  private var lines: [Int: SimLine] = [:]
  private var tampering: Tampering?
  private var devices: [Who: SimDevice] = [:]
  private var push: SimPushGround?
  private var taken: SimTakenEdge?

  package init(
    seed: UInt64, options base: SimOptions, sabotage: Sabotage? = nil, trace: SimTrace = SimTrace()
  ) {
    self.seed = seed
    self.sabotage = sabotage
    world = SimWorld(seed: seed, trace: trace)
    random = world.fork("simulation")
    var options = base
    options.limits.busyWhileInCall = random.chance(0.3)
    self.options = options
    nats = SimNATS(world)
    var setup = SimCoordinatorOptions()
    setup.shardCount = options.shardCount
    setup.limits = options.limits
    if sabotage != .ticketsNotChecked { setup.authority = options.authority }
    setup.workers = random.number(1...3)
    let count = random.number(3...5)
    let (world, nats) = (world, nats)
    invariants = StoreInvariants(nats, app: SimOptions.app, options: setup)
    coordinators = (1...count).map {
      SimCoordinator(name: "c\($0)", world: world, nats: nats, options: setup)
    }
    edges = (1...random.number(2...3)).map {
      SimEdge(name: "e\($0)", world: world, nats: nats, options: options)
    }
    faults = SimFaults(world, nats, coordinators, options.intensity)
    outages = SimOutages(world, nats, edges, options.intensity)
    workload = Workload(world, options)
    var bounds = HistoryChecker.Bounds()
    bounds.skew = Span(microseconds: 2 * setup.skewMost.microseconds)
    bounds.waitForDevices = min(options.limits.reattachGrace, options.limits.resumeGraceRinging)
    checker = HistoryChecker(bounds: bounds)
    checker.liveCallsPerDevice = options.limits.liveCallsPerDevice
    checker.devicesPerUser = options.limits.devicesPerUser
    coverage = SimCoverage(world, options)
    unrest = Unrest(world, nats, coordinators)
    var draw = world.fork("push")
    if sabotage?.isOfPush ?? false || draw.chance(options.pushShare) {
      push = SimPushGround(world, nats, options, edges) { [unowned self] in devices[$0] }
    }
    var lot = world.fork("taken")
    if sabotage == .ticketsNotChecked || (sabotage == nil && lot.chance(options.takenShare)) {
      // A subscription of the world's own bus is never refused.
      taken = try? SimTakenEdge(world, nats, options)
    }
    prepare()
  }

  private func prepare() {
    let (coordinators, edges) = (coordinators, edges)
    faults.otherNodes = { [unowned self] in edges.compactMap(\.node) + (push?.nodes ?? []) }
    workload.push = push?.people
    faults.onDisturbance = { [unowned self] in disturbed($0, until: $1) }
    outages.onDisturbance = { [unowned self] in disturbed($0, until: $1) }
    outages.nodes = { [unowned self] in
      (coordinators.compactMap(\.node) + edges.compactMap(\.node) + (push?.nodes ?? []))
        .filter { $0.state != .dead }
    }
    for edge in edges {
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
      let device = SimDevice(
        who: who, world: world, edges: edges, options: options, observer: self)
      device.onStart = { [unowned self] in
        coverage.restarted($0.who)
        note(.restarted($0.who))
      }
      return device
    }
    for device in workload.allDevices {
      devices[device.who] = device
      let heard = device.onEvent
      device.onEvent = { [unowned self] device, event in
        told(device, event)
        heard?(device, event)
      }
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

  // MARK: The run

  /// Runs the world to its end, or to the first thing that must not be.
  package func run() -> SimResult {
    world.run(for: .seconds(1))
    faults.begin()
    outages.begin()
    if options.intensity != .calm { edgeTrouble() }
    workload.begin()
    push?.begin()
    everySecond()
    world.run(for: options.activity)
    endFaults()
    workload.end()
    taken?.end()
    push?.end()
    world.schedule(after: .seconds(6), "owners") { [weak self] in self?.invariants.checkOwners() }
    world.run(for: options.settling)
    finish()
    return tearDown()
  }

  private func endFaults() {
    isTroubled = false
    outages.end()
    faults.end()
    for edge in edges {
      edge.thaw()
      edge.start()
    }
  }

  private func everySecond() {
    world.schedule(after: .seconds(1), "lateness") { [weak self] in
      guard let self else { return }
      unrest.look(&checker)
      breakDead()
      // On a connection that fell silent nobody can expect an answer.
      for line in lines.values where line.socket?.isSilent ?? true {
        note(.closed(link: line.number))
      }
      for line in lines.values
      where line.edge.isFrozen || devices[line.who]?.isAsleep ?? true { disturbed(line) }
      if let violation = checker.lateness(at: world.now) { stop(violation) }
      everySecond()
    }
  }

  /// Of a connection that is closed at its other end, or silent, a device may not know yet; and an edge
  /// may have closed that of a phone that sleeps.
  private func breakDead() {
    for line in lines.values {
      guard devices[line.who]?.isAsleep == false, let socket = line.socket, !socket.isSilent,
        !socket.isClosed
      else {
        note(.broken(link: line.number))
        continue
      }
    }
  }

  /// An edge that is cut off while others are not looks like one that ended. Once nobody waits for
  /// it any more, what its devices believe does not count.
  private func giveUpLostEdges() {
    for line in lines.values {
      guard let node = line.edge.node, let absence = nats.absence(of: node) else { continue }
      let until = absence.until ?? world.now
      // Its next heartbeat shows that it is back.
      guard world.now <= until + .seconds(1) else { continue }
      // While nobody is heard nobody is given up.
      let from =
        absence.from < outages.last.from
        ? absence.from : max(absence.from, outages.last.until)
      if from + checker.bounds.waitForDevices <= until { note(.broken(link: line.number)) }
    }
  }

  private func finish() {
    guard world.failure == nil else { return }
    let views = workload.allDevices.map {
      HistoryChecker.LastView(
        who: $0.who, isAttached: $0.isAttached, calls: Array($0.calls.values))
    }
    if let violation = checker.finish(views).first { stop(violation) }
    if let push, let job = push.unsettledJob() { world.stop(job) }
    invariants.checkStore()
    world.runJobs()
  }

  private func tearDown() -> SimResult {
    var failure = world.failure
    for (rule, count) in checker.judged { world.count("judged.\(rule.rawValue)", by: count) }
    for coordinator in coordinators { coordinator.destroy() }
    for edge in edges { edge.tearDown() }
    push?.tearDown()
    for device in workload.allDevices { device.kill(silently: true) }
    world.unwind()
    let ghosts = coordinators.map(\.ghostCount) + (push?.gateways.map(\.ghostCount) ?? [])
    if failure == nil, ghosts.contains(where: { $0 > 0 }) {
      failure = SimFailure(
        seed: seed, time: world.now, reason: "a node's tasks did not end when it was killed")
    }
    nats.tearDown()
    world.tearDown()
    lines.removeAll()
    return SimResult(
      seed: seed, failure: failure, counts: world.counts, steps: world.steps,
      simulated: world.elapsed, traceHash: world.trace.hash)
  }

  // MARK: Edges' fate

  private var isTroubled = true

  /// Edges crash, freeze, drain and come back.
  private func edgeTrouble() {
    let mean = Span.seconds(options.intensity == .brutal ? 6 : 12)
    world.schedule(after: random.exponential(mean: mean), "edge trouble") { [weak self] in
      guard let self, isTroubled else { return }
      if let edge = random.pick(edges.filter { $0.state == .running }) { trouble(edge) }
      edgeTrouble()
    }
  }

  private func trouble(_ edge: SimEdge) {
    checker.calendar.add(from: world.now, until: world.now + .seconds(1))
    let pause = random.span(.milliseconds(100), .seconds(4))
    note(.trouble(node: edge.name, from: world.now, until: world.now + pause + .seconds(1)))
    switch random.below(5) {
    case 0, 1:
      world.count("fault.edge crash")
      coverage.edgeCrashes(edge, workload.allDevices)
      edge.crash(silently: random.chance(0.3))
      later(pause) { edge.start() }
    case 2, 3:
      world.count("fault.edge freeze")
      let node = edge.node
      edge.freeze()
      checker.calendar.add(from: world.now, until: world.now + pause)
      later(pause) { if edge.node === node { edge.thaw() } }
    default:
      world.count("fault.edge drain")
      let span = random.span(.milliseconds(200), .seconds(3))
      coverage.edgeDrains(edge, workload.allDevices)
      edge.drain(over: span)
      later(span) { self.later(.seconds(3)) { edge.start() } }
    }
  }

  private func later(_ span: Span, _ body: @escaping () -> Void) {
    world.schedule(after: span, "edge again", body)
  }

  // MARK: What is seen

  private func observe() {
    nats.observers.appended.append { [unowned self] node, shard, record in
      guard let record = try? ClusterCodec.journalRecord(record.bytes) else { return }
      for entry in record.entries {
        world.note(
          "journal \(shard)", call: entry.call,
          "\(node.name) writes \(SimText.text(entry.change)) (\(record.epoch))")
      }
      if record.entries.contains(where: { $0.change.isUnreachable }) {
        breakDead()
        giveUpLostEdges()
      }
      note(.journalled(shard: shard, record))
      coverage.journalled(shard, record)
      for entry in record.entries {
        if case .answered = entry.change { workload.answered(entry.call) }
      }
    }
    nats.observers.appendStarted.append { [unowned self] _, shard, bytes in
      guard let record = try? ClusterCodec.journalRecord(bytes) else { return }
      coverage.appends(shard, record)
    }
    nats.observers.written.append { [unowned self] bucket, entry in
      guard bucket == SimOptions.registrationBucket,
        let who = SimOptions.who(registrationKey: entry.key)
      else { return }
      world.note("store", "\(who) \(entry.value == nil ? "removed" : "registered")")
      note(.stored(who, present: entry.value != nil))
      let registration = entry.value.flatMap { try? ClusterCodec.registration($0) }
      if push != nil { note(.push(.registration(who, registration))) }
    }
    nats.observers.delivered.append { [unowned self] node, message in
      guard message.subject.isOfCommands,
        let batch = try? ClusterCodec.commandBatch(message.bytes)
      else { return }
      for command in batch.commands where command.request < SimTakenEdge.firstRequest {
        coverage.arrived(command)
        if push != nil { noteForPush(command) }
      }
    }
  }

  private func told(_ device: SimDevice, _ event: ClientEvent) {
    world.note("\(device.who)", call: event.call, "app: \(SimText.text(event))")
    note(.told(device.who, event))
  }

  func note(_ event: HistoryEvent) {
    if let violation = checker.note(event, at: world.now) { stop(violation) }
  }

  func stop(_ violation: Violation) {
    world.stop(violation.description, call: violation.call)
  }
}

extension Simulation: SimLineObserver {
  package func newLink() -> Int {
    links += 1
    return links
  }

  package func opened(_ line: SimLine) {
    lines[line.number] = line
    note(.opened(line.who, link: line.number, edge: line.edge.name))
  }

  package func closed(_ line: SimLine) {
    lines[line.number] = nil
    note(.closed(link: line.number))
  }

  package func disturbed(_ line: SimLine) { note(.disturbed(link: line.number)) }

  package func sending(_ frame: ClientFrame, on line: SimLine) -> ClientFrame? {
    var frame = frame
    if case .attach(var request) = frame.command {
      // What the client asks for by itself, pushed by a gateway, comes first.
      if request.forCall == nil { request.forCall = devices[line.who]?.takeWokenFor() }
      frame.command = .attach(request)
    }
    world.note("\(line.who)", call: frame.command.address?.call, SimText.text(frame, on: line))
    note(.sent(line.who, link: line.number, frame))
    if outages.isUnderWay { coverage.sentInOutage(frame) }
    coverage.sent(frame, on: line)
    return frame
  }

  package func receiving(_ frame: ServerFrame, on line: SimLine) -> ServerFrame? {
    var frame = frame
    if let tampering {
      guard let changed = tampering.receiving(frame, on: line) else { return nil }
      frame = changed
    }
    world.note("\(line.who)", call: frame.call, SimText.text(frame, on: line))
    note(.received(line.who, link: line.number, frame))
    coverage.received(frame, on: line)
    return frame
  }
}

extension JournalEntry.Change {
  fileprivate var isUnreachable: Bool {
    if case .ended(let end) = self { end.reason == .unreachable } else { false }
  }
}

/// What came of one seed.
package struct SimResult: Sendable {
  package var seed: UInt64
  package var failure: SimFailure?
  package var counts: [String: Int]
  package var steps: Int
  package var simulated: Span
  package var traceHash: UInt64

  package init(
    seed: UInt64, failure: SimFailure?, counts: [String: Int], steps: Int, simulated: Span,
    traceHash: UInt64
  ) {
    self.seed = seed
    self.failure = failure
    self.counts = counts
    self.steps = steps
    self.simulated = simulated
    self.traceHash = traceHash
  }
}
