package import CallCore

package enum SimIntensity: String, Sendable, CaseIterable {
  case calm
  case usual
  case brutal
}

/// Injects faults by seed: coordinators crash, freeze, leave and come back, lines break, the
/// network and the store fail for a while.
package final class SimFaults: FaultSource {
  /// Mean times between faults of each kind, and their severity.
  private struct Rates {
    /// Crashes and freezes of nodes, and cuts and stalls of their lines.
    var nodes: Span
    var stutter: Span
    var shutDown: Span
    var restartStore: Span
    var weather: Span
    /// Scales the probabilities of network and store faults; 1: as in `changeWeather`.
    var weatherScale: Double
  }

  package let world: SimWorld
  package let nats: SimNATS
  package let coordinators: [SimCoordinator]
  /// Nodes beside the coordinators that can be cut off.
  package var otherNodes: () -> [SimNode] = { [] }
  /// A node was cut off, or stalled, until a time.
  package var onDisturbance: (_ node: SimNode, _ until: Timestamp) -> Void = { _, _ in }

  private let rates: Rates
  package var random: SimRandom
  package private(set) var isActive = false

  package init(
    _ world: SimWorld, _ nats: SimNATS, _ coordinators: [SimCoordinator], _ intensity: SimIntensity
  ) {
    self.world = world
    self.nats = nats
    self.coordinators = coordinators
    random = world.fork("faults")
    rates =
      switch intensity {
      case .calm:
        Rates(
          nodes: .seconds(30), stutter: .seconds(4), shutDown: .seconds(30),
          restartStore: .seconds(120), weather: .seconds(40), weatherScale: 0.3)
      case .usual:
        Rates(
          nodes: .seconds(12), stutter: .seconds(2), shutDown: .seconds(15),
          restartStore: .seconds(45), weather: .seconds(10), weatherScale: 1)
      case .brutal:
        Rates(
          nodes: .seconds(5), stutter: .milliseconds(700), shutDown: .seconds(8),
          restartStore: .seconds(20), weather: .seconds(5), weatherScale: 2)
      }
  }

  // MARK: Begin and end

  package func begin() {
    isActive = true
    every(rates.nodes) { $0.crashOne() }
    every(rates.nodes) { $0.freezeOne() }
    every(rates.stutter) { $0.stutter() }
    every(rates.shutDown) { $0.shutDownOne() }
    every(rates.nodes) { $0.cutSome() }
    every(rates.nodes) { $0.stallOne() }
    every(rates.restartStore) { $0.restartStore() }
    every(rates.weather) { $0.changeWeather() }
    // Somebody who joins late.
    every(.seconds(8)) { $0.startOne() }
  }

  package func end() {
    isActive = false
    nats.heal()
    for coordinator in coordinators {
      coordinator.thaw()
      coordinator.start()
    }
    world.incident("world", "faults end")
  }

  private func oneThatRuns() -> SimCoordinator? {
    random.pick(coordinators.filter { $0.isRunning && !$0.isFrozen })
  }

  // MARK: Processes

  private func crashOne() {
    // Mostly one at a time, now and then all of them.
    let all = random.chance(0.06)
    if all { world.count("fault.all crash") }
    for victim in all ? coordinators : [oneThatRuns()].compactMap({ $0 }) {
      victim.crash()
      // A supervisor is quick, a machine is not.
      let pause =
        random.chance(0.5)
        ? random.span(.milliseconds(50), .milliseconds(600))
        : random.span(.milliseconds(600), .seconds(5))
      later(pause) { _ in victim.start() }
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
        later(random.span(.milliseconds(1), .milliseconds(80))) { _ in
          if victim.isLeaving { victim.crash() }
        }
      }
      later(random.span(.milliseconds(100), .seconds(3))) { _ in victim.start() }
    }
  }

  private func freezeOne() {
    guard let victim = oneThatRuns(), let node = victim.node else { return }
    victim.freeze()
    let long = random.span(.milliseconds(100), .seconds(5))
    onDisturbance(node, world.now + long)
    if random.chance(0.15) {
      later(random.span(.milliseconds(20), .milliseconds(1500))) { faults in
        guard victim.node === node else { return }
        victim.replaceFrozen(thawAfter: faults.random.span(.milliseconds(10), .seconds(4)))
      }
    }
    world.schedule(after: long, "thaw") { if victim.node === node { victim.thaw() } }
  }

  private func stutter() {
    guard let victim = oneThatRuns(), let node = victim.node else { return }
    world.count("fault.stutter")
    node.freeze()
    world.schedule(after: random.span(.milliseconds(1), .milliseconds(150)), "stutter ends") {
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
    // A broken line is noticed at once, a dead one after a while.
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
    func maybe(_ most: Double) -> Double {
      random.chance(0.35) ? random.unit() * most * rates.weatherScale : 0
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
    later(random.span(.seconds(1), .seconds(8))) { $0.nats.faults = .none }
  }
}
