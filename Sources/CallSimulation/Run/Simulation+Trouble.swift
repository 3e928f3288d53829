internal import CallCore
internal import CallJudge

extension Simulation: FaultSource {
  /// An edge crashes, freezes or drains, and comes back.
  func troubleEdge() {
    guard let edge = random.pick(edges.filter { $0.state == .running }) else { return }
    checker.calendar.add(from: world.now, until: world.now + .seconds(1))
    let pause = random.span(.milliseconds(100), .seconds(4))
    note(.trouble(node: edge.name, from: world.now, until: world.now + pause + .seconds(1)))
    switch random.below(5) {
    case 0, 1:
      world.count("fault.edge crash")
      coverage.race("R11", at: edge, of: workload.allDevices)
      edge.crash(silently: random.chance(0.3))
      world.schedule(after: pause) { edge.start() }
    case 2, 3:
      world.count("fault.edge freeze")
      edge.freeze(for: pause)
      checker.calendar.add(from: world.now, until: world.now + pause)
    default:
      world.count("fault.edge drain")
      let span = random.span(.milliseconds(200), .seconds(3))
      coverage.race("R20", at: edge, of: workload.allDevices)
      edge.drain(over: span, backAfter: .milliseconds(950))
    }
  }

  /// Reports trouble of the cluster since the last look, and the node that has it: it suspends the
  /// rules of time.
  func lookForTrouble() {
    let nodes = coordinators.map { $0.node?.number }
    var isWrong = !coordinators.contains { $0.isRunning }
    func report(_ node: String?) {
      isWrong = true
      note(.trouble(node: node, from: lastLook, until: world.now))
    }
    if nats.isDown || !nats.faults.isNone { report(nil) }
    for (index, coordinator) in coordinators.enumerated()
    where nodes[index] != lastNodes[index] || coordinator.isFrozen || coordinator.isLeaving {
      report(coordinator.name)
    }
    if isWrong { checker.calendar.add(from: lastLook, until: world.now) }
    lastNodes = nodes
    lastLook = world.now
  }
}
