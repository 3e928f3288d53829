internal import CallCore
internal import CallJudge

/// Faults of edges: they crash, freeze, drain and come back.
extension Simulation: FaultSource {
  func troubleEdge() {
    guard let edge = random.pick(edges.filter { $0.state == .running }) else { return }
    checker.calendar.add(from: world.now, until: world.now + .seconds(1))
    let pause = random.span(.milliseconds(100), .seconds(4))
    note(.trouble(node: edge.name, from: world.now, until: world.now + pause + .seconds(1)))
    switch random.below(5) {
    case 0, 1:
      world.count("fault.edge crash")
      coverage.edgeCrashes(edge, workload.allDevices)
      edge.crash(silently: random.chance(0.3))
      world.schedule(after: pause, "edge again") { edge.start() }
    case 2, 3:
      world.count("fault.edge freeze")
      let node = edge.node
      edge.freeze()
      checker.calendar.add(from: world.now, until: world.now + pause)
      world.schedule(after: pause, "edge thaws") { if edge.node === node { edge.thaw() } }
    default:
      world.count("fault.edge drain")
      let span = random.span(.milliseconds(200), .seconds(3))
      coverage.edgeDrains(edge, workload.allDevices)
      edge.drain(over: span)
      world.schedule(after: span + .seconds(3), "edge again") { edge.start() }
    }
  }
}
