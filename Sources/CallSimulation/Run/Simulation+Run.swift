internal import CallCore
internal import CallJudge
internal import CallTelemetry

// A run from its first second to its tear-down.
extension Simulation {
  /// Runs the world to its end, or to the first thing that must not be.
  package func run() -> SimResult {
    world.run(for: .seconds(1))
    faults.begin()
    outages.begin()
    if options.intensity != .calm {
      every(options.intensity.seconds(12, 12, 6)) { $0.troubleEdge() }
    }
    workload.begin()
    push?.begin()
    everySecond()
    world.run(for: options.activity)
    endFaults()
    workload.end()
    taken?.end()
    push?.end()
    later(.seconds(6)) { $0.invariants.checkOwners() }
    world.run(for: options.settling)
    // Calls that ring get their time, and then the time that everything else had.
    let end = world.now + Self.ringingMost
    while checker.isRinging, world.failure == nil, world.now < end { world.run(for: .seconds(1)) }
    if checker.isRinging || checker.hasEnded(since: world.now - Self.afterCalls) {
      world.run(for: Self.afterCalls)
    }
    finish()
    return tearDown()
  }

  /// Each of a group's members has its turn.
  private static let ringingMost = Span.seconds(120)
  /// The events that follow an end take no longer.
  private static let afterCalls = Span.seconds(8)

  private func endFaults() {
    isActive = false
    outages.end()
    faults.end()
    for edge in edges {
      edge.thaw()
      edge.start()
    }
  }

  private func everySecond() {
    later(.seconds(1)) {
      $0.checkTimes()
      $0.everySecond()
    }
  }

  private func checkTimes() {
    lookForTrouble()
    breakDead()
    // No reply can be expected on a silent connection.
    for line in lines.values where line.socket?.isSilent ?? true {
      note(.closed(link: line.number))
    }
    for line in lines.values
    where line.edge.isFrozen || devices[line.who]?.isAsleep ?? true { disturbed(line) }
    if let violation = checker.lateness(at: world.now) { stop(violation) }
    checkInternalFaults()
  }

  /// A fault that a state machine counts (`MachineFault`) is a bug, whatever the history looks like.
  private func checkInternalFaults() {
    for coordinator in coordinators
    where coordinator.internalFaults.contains(where: { $0.value > 0 }) {
      world.stop("a state machine of \(coordinator.name) counted an internal fault")
    }
  }

  /// A device may not have noticed yet that its connection is closed or silent, and an edge may
  /// have closed that of a sleeping phone.
  func breakDead() {
    for line in lines.values {
      let isOpen = line.socket.map { !$0.isSilent && !$0.isClosed } ?? false
      if !isOpen || devices[line.who]?.isAsleep ?? true { note(.broken(link: line.number)) }
    }
  }

  /// To the cluster an edge that is cut off alone looks like one that ended. Once the
  /// cluster has given it up, its devices' sessions do not count.
  func giveUpLostEdges() {
    for line in lines.values {
      guard let node = line.edge.node, let absence = nats.absence(of: node) else { continue }
      let until = absence.until ?? world.now
      // Its next heartbeat shows that it has returned.
      guard world.now <= until + .seconds(1) else { continue }
      // During an outage of all edges none is given up.
      let from =
        absence.from < outages.last.from
        ? absence.from : max(absence.from, outages.last.until)
      if from + checker.bounds.waitForDevices <= until { note(.broken(link: line.number)) }
    }
  }

  private func finish() {
    guard world.failure == nil else { return }
    let views = workload.allDevices.map {
      HistoryChecker.LastView(who: $0.who, isAttached: $0.isAttached, calls: Array($0.calls.values))
    }
    if let violation = checker.finish(views).first { stop(violation) }
    checkInternalFaults()
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
}
