internal import CallCore
internal import CallJudge

// Faults of edges: they crash, freeze, drain and come back.
extension Simulation {
  /// Edges crash, freeze, drain and come back.
  func edgeTrouble() {
    let mean = Span.seconds(options.intensity == .brutal ? 6 : 12)
    world.schedule(after: random.exponential(mean: mean), "edge trouble") { [weak self] in
      guard let self, edgesAreTroubled else { return }
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
}
