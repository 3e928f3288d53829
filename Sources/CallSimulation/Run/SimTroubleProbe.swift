internal import CallCore
internal import CallJudge

/// Detects trouble of the cluster, which suspends the rules of time.
final class SimTroubleProbe {
  private let world: SimWorld
  private let nats: SimNATS
  private let coordinators: [SimCoordinator]
  private var lastNodes: [Int?] = []
  private var lastLook: Timestamp

  init(_ world: SimWorld, _ nats: SimNATS, _ coordinators: [SimCoordinator]) {
    self.world = world
    self.nats = nats
    self.coordinators = coordinators
    lastNodes = coordinators.map { _ in nil }
    lastLook = world.now
  }

  /// Reports any trouble since the last look, and the node that has it.
  func look(_ checker: inout HistoryChecker) {
    let nodes = coordinators.map { $0.node?.number }
    var wrong = !coordinators.contains { $0.isRunning }
    func note(_ node: String?) {
      wrong = true
      _ = checker.note(.trouble(node: node, from: lastLook, until: world.now), at: world.now)
    }
    if nats.isDown || !nats.faults.isNone { note(nil) }
    for (index, coordinator) in coordinators.enumerated()
    where nodes[index] != lastNodes[index] || coordinator.isFrozen || coordinator.isLeaving {
      note(coordinator.name)
    }
    if wrong { checker.calendar.add(from: lastLook, until: world.now) }
    lastNodes = nodes
    lastLook = world.now
  }
}
