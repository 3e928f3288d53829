import CallClient
import CallCore
import CallProcesses

/// Injects the faults of a plan into a local cluster, and repairs it.
package struct ChaosDirector: Sendable {
  let plan: ChaosPlan
  let cluster: LocalCluster
  let engine: LoadEngine
  let seed: UInt64
  let say: @Sendable (String) -> Void
  let referee = Referee()

  /// The time after which no fault begins in a load of this duration: all must settle before its end.
  package static func lastFaultSeconds(_ plan: ChaosPlan, duration: Double) -> Double {
    let longest = plan.entries.map(\.lengthSeconds).max() ?? 0
    return max(duration * 0.4, duration - longest - 5)
  }

  /// Injects each kind at least once until `seconds` have passed. A cancelled task lifts faults early.
  package func run(seconds: Double) async {
    let end = ContinuousClock.now + .seconds(seconds)
    await withTaskGroup(of: Void.self) { group in
      for entry in plan.entries where isWorthwhile(entry.kind) {
        group.addTask { await run(entry, until: end) }
      }
    }
  }

  private func isWorthwhile(_ kind: ChaosKind) -> Bool {
    // Without sleeping devices there are no gateways.
    if kind == .killPush { return !cluster.pushGateways.isEmpty }
    // With one server an outage of all is the same as of one.
    guard let one = kind.oneServerKind, cluster.nats.count == 1 else { return true }
    return !plan.entries.contains { $0.kind == one }
  }

  private func run(_ entry: ChaosPlan.Entry, until end: ContinuousClock.Instant) async {
    var random = SplitMix64(seed: seed ^ Self.hash(entry.kind.rawValue))
    let interval = entry.intervalSeconds
    let first = interval * Double.random(in: 0.2...0.7, using: &random)
    var next = min(.now + .seconds(first), end - .milliseconds(500))
    while next < end, !Task.isCancelled {
      try? await Task.sleep(until: next)
      guard !Task.isCancelled else { return }
      next = .now + .seconds(interval * Double.random(in: 0.75...1.25, using: &random))
      var fault = entry
      fault.lengthSeconds = entry.drawLength(&random)
      await inject(fault, until: end, &random)
    }
  }

  /// FNV-1a: the same in every run, which `Hasher` is not.
  private static func hash(_ text: String) -> UInt64 {
    text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
  }

  private func inject(
    _ entry: ChaosPlan.Entry, until end: ContinuousClock.Instant, _ random: inout SplitMix64
  ) async {
    switch entry.kind {
    case .killCoordinator, .freezeCoordinator:
      await disturbOne(of: cluster.coordinators, entry, &random)
    case .killEdge, .freezeEdge: await disturbOne(of: cluster.edges, entry, &random)
    case .killPush: await disturbOne(of: cluster.pushGateways, entry, &random)
    case .partition:
      let isOfEdge = Bool.random(using: &random)
      await disturbOne(of: isOfEdge ? cluster.edges : cluster.coordinators, entry, &random)
    case .killNATS, .freezeNATS, .cutNATS, .killAllNATS, .freezeAllNATS, .cutAllNATS:
      await inTurn(entry, until: end) { await disturbNATS(entry, &random) }
    case .killAllEdges, .freezeAllEdges: await disturbAllEdges(entry)
    case .rollingRestart: await restartAll(entry)
    case .drain:
      await withVictim(among: cluster.nodes, &random) {
        await drain($0, entry)
      }
    }
  }

  // MARK: Victims

  /// Runs `body` on a node without another fault, while another node of its kind is well.
  func withVictim(
    among nodes: [NodeProcess], _ random: inout SplitMix64, _ body: (NodeProcess) async -> Void
  ) async {
    let draw = random.next()
    let names = nodes.map(\.name)
    guard let name = await claim({ await referee.claim(among: names, draw: draw) }),
      let node = nodes.first(where: { $0.name == name })
    else { return }
    await body(node)
    await referee.giveBack(name)
  }

  /// Tries ten times a second to take something; nil after `attempts` or in a cancelled task.
  func claim<Taken>(attempts: Int = 100, _ take: () async -> Taken?) async -> Taken? {
    for _ in 0..<attempts {
      if let taken = await take() { return taken }
      guard !Task.isCancelled else { return nil }
      await Pause.milliseconds(100)
    }
    return nil
  }

  /// - Parameter edges: those concerned, where they are several.
  func makeFault(
    _ kind: ChaosKind, _ process: SupervisedProcess, node: String? = nil, edges: Range<Int>? = nil
  ) async -> ChaosFault {
    var shards: [Int] = []
    let coordinator =
      process.role == .node ? ChaosFault.coordinator(of: process.name) : process.name
    switch process.role {
    case .nats: shards = Array(0..<cluster.shards)
    case .node where kind.isOfAllEdges: shards = Array(0..<cluster.shards)
    case .coordinator, .node:
      // Without an answer (NATS is down, the machine is busy) any shard may be concerned.
      shards = await cluster.callctl?.shards(of: coordinator) ?? Array(0..<cluster.shards)
    case .edge, .push: break
    }
    return ChaosFault(
      id: await referee.nextFault(), kind: kind, node: node ?? process.name, role: process.role,
      edges: edges.map(Array.init)
        ?? cluster.edges.indices.filter { cluster.edges[$0].process === process }, shards: shards)
  }

  /// Runs one fault until its node is well again.
  func play(
    _ fault: ChaosFault, begin: () async -> Void = {}, lengthSeconds: Double = 0,
    lift: () async -> Void
  ) async {
    let shards = fault.shards.isEmpty ? "" : ", \(fault.shards.count) shards"
    say("\(fault.kind.rawValue): \(fault.node)\(shards)")
    await engine.note(.begins(fault))
    await begin()
    await engine.note(.happened(fault))
    if fault.kind.isPlanned {
      await withTaskGroup(of: Void.self) { group in
        group.addTask { await reportMovingShards(fault) }
        await lift()
        group.cancelAll()
      }
    } else {
      async let widened: Void = reportShardsGained(fault, within: lengthSeconds)
      try? await Task.sleep(for: .seconds(lengthSeconds))
      await widened
      await lift()
    }
    await engine.note(.lifted(fault))
  }

  /// Widens a planned change by all shards that it moves: those taken before the drain, and those that return.
  private func reportMovingShards(_ fault: ChaosFault) async {
    guard fault.isOfCoordinator, let callctl = cluster.callctl else { return }
    while !Task.isCancelled {
      // Not at once: one more process would lengthen the pauses that are measured.
      try? await Task.sleep(for: .seconds(1))
      guard !Task.isCancelled else { return }
      let found = await callctl.status(timeout: .seconds(1))?.shards(of: fault.coordinator) ?? []
      if !found.isEmpty, !Task.isCancelled { await engine.note(.widened(fault, by: found)) }
    }
  }

  private static let statusInterval = Duration.milliseconds(500)

  /// Widens a fault by the shards that the coordinator got after it was asked for its shards: before the
  /// fault, or in a hand-over by a coordinator that had not noticed the fault. They show only in that no other
  /// coordinator serves them.
  private func reportShardsGained(_ fault: ChaosFault, within seconds: Double) async {
    guard fault.isOfCoordinator, let callctl = cluster.callctl else { return }
    let others = cluster.coordinators.map { $0.roleNames[0] }.filter { $0 != fault.coordinator }
    let end = ContinuousClock.now + .seconds(seconds)
    repeat {
      let timeout = max(.milliseconds(500), end - .now)
      let status = await callctl.status(timeout: timeout)
      let unserved = status?.unserved(by: others, of: cluster.shards) ?? []
      if !unserved.isEmpty { await engine.note(.widened(fault, by: unserved.sorted())) }
      try? await Task.sleep(until: min(end, .now + Self.statusInterval))
    } while ContinuousClock.now < end && !Task.isCancelled
  }

  /// Waits until a node is up again, for 20 s at most, so that another of its kind may be disturbed.
  func untilReady(_ isReady: () async -> Bool) async {
    let deadline = ContinuousClock.now + .seconds(20)
    while ContinuousClock.now < deadline {
      if await isReady() { return }
      await Pause.milliseconds(20)
    }
  }
}
