import CallClient
import CallCore

/// Faults, as the rig notes, watches and judges them. Called on its loop.
extension LoadRig {
  /// Connects what watches shards from outside.
  /// - Throws: what minting a token threw.
  func startProbes() throws {
    guard options.isDisturbed, options.shardCount > 0, probes == nil else { return }
    let probes = try ShardProbes(
      options: options, shardCount: options.shardCount, loop: loop, network: network)
    probes.onFinding = { [weak self] fault, finding in self?.found(finding, of: fault) }
    self.probes = probes
    probes.start()
  }

  /// The devices that have their session at an edge.
  package func devices(at edge: Int) -> [Int] {
    devices.filter { $0.edge == edge && $0.isAttached }.map(\.index)
  }

  /// A fault begins at this very moment. What it disturbs is excused from now on.
  package func faultBegins(_ fault: Fault) {
    guard let stage else { return }
    stage.openFaults.insert(fault.id)
    stage.chaos.injected[fault.kind, default: 0] += 1
    let carried = fault.edges.flatMap { devices(at: $0) }
    stage.faultBeganAt[fault.id] = loop.now
    stage.outages[fault.id] = fault.kind
    if !fault.edges.isEmpty { stage.edgesDisturbed[fault.id] = fault.edges }
    stage.checker.timeline.begin(fault, carried: carried, at: loop.now)
  }

  /// It has happened: from now on the shards concerned are asked.
  package func faultHappened(_ fault: Fault) {
    guard let stage, let since = stage.faultBeganAt[fault.id] else { return }
    guard let probes, !fault.shards.isEmpty else { return }
    // Where NATS is concerned an edge may have lost it alone, and each must be well again.
    let all = Set(options.edges.indices).subtracting(stage.edgesDisturbed.values.joined())
    stage.watched.insert(fault.id)
    probes.watch(fault, since: since, through: fault.kind.isOfNATS ? all : [])
  }

  /// These shards are concerned, too, or again, since not long ago.
  package func faultWidened(_ fault: Fault, by shards: [Int]) {
    guard let stage, let probes, let began = stage.faultBeganAt[fault.id] else { return }
    let new = shards.filter { !probes.isAsking($0, for: fault.id) }
    guard !new.isEmpty else { return }
    // Measured is what is known; excused, what may have been.
    if stage.watched.contains(fault.id) {
      probes.widen(fault.id, by: new, since: loop.now)
    } else {
      var rest = fault
      rest.shards = new
      stage.watched.insert(fault.id)
      probes.watch(rest, since: loop.now, through: [])
    }
    let since = max(began, loop.now + Span(microseconds: -Self.betweenQuestions.microseconds))
    stage.checker.timeline.widen(fault, by: new, since: since)
  }

  /// How old what is known of nodes' shards may be, about.
  private static let betweenQuestions: Span = .seconds(1)

  /// The process runs again, the network is whole again.
  package func faultLifted(_ fault: Fault) {
    guard let stage else { return }
    stage.edgesDisturbed[fault.id] = nil
    stage.outages[fault.id] = nil
    stage.checker.timeline.lifted(fault: fault.id, at: loop.now) {
      devices[$0].isAttached || devices[$0].driver.isSuspended
    }
    if fault.kind.isPlanned { probes?.finishPlanned(fault.id) }
    stage.lifted.insert(fault.id)
    closeIfDone(fault)
  }

  private func found(_ finding: ShardProbes.Finding, of fault: Fault) {
    guard let stage else { return }
    let now = loop.now
    switch finding {
    case .answered(let shard, let span):
      stage.checker.timeline.answered(shard: shard, fault: fault.id, at: now)
      var histogram = stage.chaos.shardSilence[fault.kind] ?? LatencyBook.histogram()
      ChaosResult.record(span, in: &histogram)
      stage.chaos.shardSilence[fault.kind] = histogram
      return
    case .complete(let longest): tookOver(fault, UInt64(max(1, longest.microseconds)))
    case .slow(let accounts): return noteSlow(fault, accounts, at: now)
    case .gaveUp(let accounts):
      noteSlow(fault, accounts, at: now)
      tookOver(fault, nil)
    case .paused(let pauses):
      for pause in pauses.values { ChaosResult.record(pause, in: &stage.chaos.handOver) }
    }
    stage.checker.timeline.end(shardsOf: fault.id, at: now)
    stage.watched.remove(fault.id)
    closeIfDone(fault)
  }

  /// The first of them: shards share their fate, as a rule.
  private func noteSlow(_ fault: Fault, _ accounts: [String], at now: Timestamp) {
    guard let stage, let began = stage.faultBeganAt[fault.id], let first = accounts.first else {
      return
    }
    let at = Units.fixed(Double((began - stage.startedAt).microseconds) / 1_000_000, 1)
    let age = Units.fixed(Double((now - began).microseconds) / 1_000_000, 0)
    let rest = accounts.count > 1 ? "; \(accounts.count - 1) more" : ""
    stage.chaos.slow.append(
      "\(fault.kind.rawValue) \(fault.node) at \(at) s, after \(age) s: \(first)\(rest)")
  }

  private func tookOver(_ fault: Fault, _ microseconds: UInt64?) {
    guard let stage, let began = stage.faultBeganAt[fault.id] else { return }
    // Shards that came to it later are asked anew; they are no second take-over.
    guard stage.tookOver.insert(fault.id).inserted || microseconds == nil else { return }
    stage.chaos.takeOvers.append(
      ChaosResult.TakeOver(
        kind: fault.kind, node: fault.node,
        atSeconds: Double((began - stage.startedAt).microseconds) / 1_000_000,
        shards: fault.shards.count, microseconds: microseconds))
  }

  private func closeIfDone(_ fault: Fault) {
    guard let stage, stage.lifted.contains(fault.id), !stage.watched.contains(fault.id) else {
      return
    }
    stage.openFaults.remove(fault.id)
    stage.faultBeganAt[fault.id] = nil
    stage.tookOver.remove(fault.id)
    stage.lifted.remove(fault.id)
  }

  // MARK: Calls that are placed while a fault lasts

  func noteOutages(_ plan: CallPlan) {
    guard let stage, !stage.outages.isEmpty else { return }
    stage.placedDuring[plan.call] = Set(stage.outages.values)
  }

  func tally(_ call: CallID, _ fate: ChaosResult.Fate) {
    guard let stage else { return }
    for kind in stage.placedDuring.removeValue(forKey: call) ?? [] {
      stage.chaos.placedDuring[kind, default: [:]][fate, default: 0] += 1
    }
  }

  // MARK: Devices

  /// Whether a broken connection needs no other cause than a fault that is known.
  func isExcused(_ device: LoadDevice) -> Bool {
    guard let stage, !stage.checker.timeline.isEmpty else { return false }
    // A device that is told to go may have a new session before it loses the old one.
    if !stage.edgesDisturbed.isEmpty { return true }
    if stage.checker.timeline.mayTellDevicesToGo(at: loop.now) { return true }
    return stage.checker.timeline.disturbed(device: device.index, from: loop.now, to: loop.now)
      != nil
  }

  func connectionLost(_ device: LoadDevice) {
    guard options.isDisturbed, device.lostAt == nil else { return }
    device.lostAt = loop.now
  }

  func connectionBack(_ device: LoadDevice) {
    let now = loop.now
    stage?.checker.timeline.attached(device: device.index, through: device.edge, at: now)
    guard let lost = device.lostAt else { return }
    device.lostAt = nil
    guard let stage else { return }
    stage.chaos.reconnects += 1
    ChaosResult.record(now - lost, in: &stage.chaos.reconnect)
  }
}
