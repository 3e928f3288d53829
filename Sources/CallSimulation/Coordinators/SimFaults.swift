package import CallCore

/// Injects faults by seed: coordinators crash, freeze, leave and come back, lines break, the
/// network and the store fail for a while.
package final class SimFaults: FaultSource {
  package let world: SimWorld
  package let nats: SimNATS
  package let coordinators: [SimCoordinator]
  /// Nodes other than coordinators that can be cut off.
  package var otherNodes: () -> [SimNode] = { [] }
  /// A node was cut off, or stalled, until a time.
  package var onDisturbance: (_ node: SimNode, _ until: Timestamp) -> Void = { _, _ in }

  private let intensity: SimIntensity
  package var random: SimRandom
  package private(set) var isActive = false

  package init(_ nats: SimNATS, _ coordinators: [SimCoordinator], _ intensity: SimIntensity) {
    world = nats.world
    self.nats = nats
    self.coordinators = coordinators
    random = world.fork("faults")
    self.intensity = intensity
  }

  // MARK: Begin and end

  package func begin() {
    isActive = true
    let nodes = intensity.seconds(30, 12, 5)
    every(nodes) { $0.crashOne() }
    every(nodes) { $0.freezeOne() }
    every(intensity.seconds(4, 2, 0.7)) { $0.stutter() }
    every(intensity.seconds(30, 15, 8)) { $0.shutDownOne() }
    every(nodes) { $0.cutSome() }
    every(nodes) { $0.stallOne() }
    every(intensity.seconds(120, 45, 20)) { $0.restartStore() }
    every(intensity.seconds(40, 10, 5)) { $0.changeWeather() }
    // Somebody who joins late.
    every(.seconds(8)) { $0.startOne() }
  }

  package func end() {
    isActive = false
    nats.heal()
    for coordinator in coordinators { coordinator.recover() }
    world.incident("world", "faults end")
  }

  private func oneThatRuns() -> SimCoordinator? {
    random.pick(coordinators.filter { $0.isRunning && !$0.isFrozen })
  }

  // MARK: Processes

  private func crashOne() {
    // Mostly one at a time, sometimes all of them.
    let all = random.chance(0.06)
    if all { world.count("fault.all crash") }
    for victim in all ? coordinators : [oneThatRuns()].compactMap({ $0 }) {
      victim.crash()
      // A supervisor restarts a process quickly; a machine takes longer.
      let pause =
        random.chance(0.5)
        ? random.span(.milliseconds(50), .milliseconds(600))
        : random.span(.milliseconds(600), .seconds(5))
      laterIfActive(pause) { _ in victim.start() }
    }
  }

  private func startOne() {
    random.pick(coordinators.filter { !$0.isRunning })?.start()
  }

  private func shutDownOne() {
    guard let victim = oneThatRuns() else { return }
    victim.shutDown()
    if random.chance(0.5) {
      // Killed in the middle of it.
      if random.chance(0.3) {
        laterIfActive(random.span(.milliseconds(1), .milliseconds(80))) { _ in
          if victim.isLeaving { victim.crash() }
        }
      }
      laterIfActive(random.span(.milliseconds(100), .seconds(3))) { _ in victim.start() }
    }
  }

  private func freezeOne() {
    guard let victim = oneThatRuns(), let node = victim.node else { return }
    let long = random.span(.milliseconds(100), .seconds(5))
    victim.freeze(for: long)
    onDisturbance(node, world.now + long)
    if random.chance(0.15) {
      laterIfActive(random.span(.milliseconds(20), .milliseconds(1500))) { faults in
        guard victim.node === node else { return }
        victim.replaceFrozen(thawAfter: faults.random.span(.milliseconds(10), .seconds(4)))
      }
    }
  }

  private func stutter() {
    guard let victim = oneThatRuns(), let node = victim.node else { return }
    world.count("fault.stutter")
    node.freeze()
    world.schedule(after: random.span(.milliseconds(1), .milliseconds(150))) {
      node.thaw()
    }
  }

  // MARK: Lines

  private func cutSome() {
    var nodes = coordinators.compactMap(\.node) + otherNodes()
    guard !nodes.isEmpty else { return }
    let count = random.chance(0.7) ? 1 : random.number(1...nodes.count)
    nodes = Array(nodes.shuffled(using: &random).prefix(count))
    world.count(count == 1 ? "fault.cut off alone" : "fault.cut off in a group")
    let span = random.span(.milliseconds(30), .seconds(5))
    // A node notices a broken line at once, and a silent one after a while.
    let notice =
      random.chance(0.5) ? Span.milliseconds(1) : random.span(.milliseconds(50), .seconds(3))
    nats.cut(nodes, for: span, notice: notice)
    for node in nodes { onDisturbance(node, world.now + max(span, notice) + .milliseconds(300)) }
  }

  private func stallOne() {
    guard let node = random.pick(coordinators.compactMap(\.node) + otherNodes()) else { return }
    world.count("fault.line stalls")
    let span = random.span(.milliseconds(20), .seconds(3))
    nats.stall([node], for: span)
    onDisturbance(node, world.now + span)
  }

  private func restartStore() {
    let span = random.span(.milliseconds(50), .milliseconds(1500))
    nats.restart(downFor: span)
    for node in coordinators.compactMap(\.node) + otherNodes() {
      onDisturbance(node, world.now + span + .milliseconds(500))
    }
  }

  private func changeWeather() {
    guard random.chance(0.6) else {
      nats.faults = .none
      return
    }
    var faults = SimNetworkFaults()
    let scale = intensity.pick(calm: 0.3, usual: 1, brutal: 2)
    func maybe(_ most: Double) -> Double {
      random.chance(0.35) ? random.unit() * most * scale : 0
    }
    if random.chance(0.3) { faults.hopLongest = random.span(.milliseconds(1), .milliseconds(60)) }
    faults.lose = maybe(0.05)
    faults.duplicate = maybe(0.1)
    faults.delay = maybe(0.1)
    faults.writeLost = maybe(0.05)
    faults.writeAnswerLost = maybe(0.05)
    faults.writeLate = maybe(0.03)
    faults.reorder = maybe(0.05)
    faults.appendRaces = maybe(1)
    faults.putRaces = maybe(1)
    faults.writeFails = maybe(0.1)
    faults.writeRefused = maybe(0.01)
    faults.readLost = maybe(0.05)
    faults.readStale = maybe(0.05)
    faults.jobLost = maybe(0.1)
    faults.settlementLost = maybe(0.1)
    nats.faults = faults
    world.incident("world", "weather changes")
    laterIfActive(random.span(.seconds(1), .seconds(8))) { $0.nats.faults = .none }
  }
}
