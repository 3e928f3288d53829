import CallClient
import CallCore

/// Injects the faults of a plan into a local cluster, and leaves it whole.
package struct ChaosDirector: Sendable {
  let plan: ChaosPlan
  let cluster: LocalCluster
  let engine: LoadEngine
  let seed: UInt64
  let say: @Sendable (String) -> Void
  let referee = Referee()

  package init(
    plan: ChaosPlan, cluster: LocalCluster, engine: LoadEngine, seed: UInt64,
    say: @escaping @Sendable (String) -> Void
  ) {
    self.plan = plan
    self.cluster = cluster
    self.engine = engine
    self.seed = seed
    self.say = say
  }

  /// When the last fault may begin, of a load that long: all must settle before its end.
  package static func lastFaultSeconds(_ plan: ChaosPlan, duration: Double) -> Double {
    let longest = plan.entries.map(\.lengthSeconds).max() ?? 0
    return max(duration * 0.4, duration - longest - 5)
  }

  /// Injects until `seconds` have passed, each kind at least once, then waits until every fault is
  /// lifted. A cancelled task lifts them early.
  package func run(seconds: Double) async {
    let end = ContinuousClock.now + .seconds(seconds)
    await withTaskGroup(of: Void.self) { group in
      // Where nothing sleeps there are no gateways.
      for entry in plan.entries where isWorthwhile(entry.kind) {
        group.addTask { await run(entry, until: end) }
      }
    }
  }

  private func isWorthwhile(_ kind: ChaosKind) -> Bool {
    if kind == .killPush { return !cluster.pushGateways.isEmpty }
    // Of one server all are one.
    guard let one = kind.oneServerKind, cluster.nats.count == 1 else { return true }
    return !plan.entries.contains { $0.kind == one }
  }

  private func run(_ entry: ChaosPlan.Entry, until end: ContinuousClock.Instant) async {
    var random = SplitMix64(seed: seed ^ ShardName.hash(entry.kind.rawValue))
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

  private func inject(
    _ entry: ChaosPlan.Entry, until end: ContinuousClock.Instant, _ random: inout SplitMix64
  ) async {
    switch entry.kind {
    case .killCoordinator, .freezeCoordinator:
      await withVictim(among: cluster.coordinators.map(\.process), &random) { process in
        await disturb(process, entry)
      }
    case .killEdge, .freezeEdge:
      await withVictim(among: cluster.edges.map(\.process), &random) { process in
        await disturb(process, entry)
      }
    case .killPush:
      await withVictim(among: cluster.pushGateways.map(\.process), &random) { process in
        await disturb(process, entry)
      }
    case .killNATS, .freezeNATS, .cutNATS, .killAllNATS, .freezeAllNATS, .cutAllNATS:
      await inTurn(entry, until: end) { await disturbNATS(entry, &random) }
    case .freezeAllEdges: await freezeAllEdges(entry)
    case .partition:
      let isEdge = Bool.random(using: &random)
      let isSilent = Bool.random(using: &random)
      let nodes = isEdge ? cluster.edges : cluster.coordinators
      await withVictim(among: nodes.map(\.process), &random) { process in
        await cutOff(process, entry, isSilent: isSilent)
      }
    case .rollingRestart: await restartAll(entry, &random)
    case .drain:
      let all = cluster.coordinators + cluster.edges
      await withVictim(among: all.map(\.process), &random) { process in
        await drain(process, entry)
      }
    }
  }

  // MARK: Victims

  /// Runs `body` on a process of which nobody else is doing anything to, and whose likes are not all
  /// in trouble. Waits a while for one.
  private func withVictim(
    among processes: [SupervisedProcess], _ random: inout SplitMix64,
    _ body: (SupervisedProcess) async -> Void
  ) async {
    let draw = random.next()
    for _ in 0..<100 {
      if let name = await referee.take(among: processes.map(\.name), draw),
        let process = processes.first(where: { $0.name == name })
      {
        await body(process)
        return await referee.giveBack(name)
      }
      guard !Task.isCancelled else { return }
      await Pause.milliseconds(100)
    }
  }

  func node(_ process: SupervisedProcess) -> NodeMember? {
    (cluster.coordinators + cluster.edges + cluster.pushGateways)
      .first { $0.process === process }
  }

  // MARK: Faults as the engine knows them

  /// - Parameter edges: those concerned, where they are several.
  func makeFault(
    _ kind: ChaosKind, _ process: SupervisedProcess, node: String? = nil, edges: Range<Int>? = nil
  ) async -> Fault {
    var shards: [Int] = []
    switch process.role {
    case .nats: shards = Array(0..<cluster.shards)
    case .coordinator:
      // Where nobody says (NATS is down, the machine is busy) any shard may be concerned.
      shards =
        await cluster.questions?.shards(of: process.name) ?? Array(0..<cluster.shards)
    case .edge, .push: break
    }
    return Fault(
      id: await referee.nextFault(), kind: kind, node: node ?? process.name, role: process.role,
      edges: edges.map(Array.init)
        ?? cluster.edges.indices.filter {
          cluster.edges[$0].process === process
        }, shards: shards)
  }

  /// One fault from its begin to where its node is well again.
  func play(
    _ fault: Fault, begin: () async -> Void, lengthSeconds: Double, lift: () async -> Void
  ) async {
    say("\(fault.kind.rawValue): \(fault.node)\(Self.shardsText(fault))")
    await engine.tell(.begins(fault))
    await begin()
    await engine.tell(.happened(fault))
    if fault.kind.isPlanned {
      await withTaskGroup(of: Void.self) { group in
        group.addTask { await tellOfShardsThatCome(fault) }
        await lift()
        group.cancelAll()
      }
    } else {
      async let widened: Void = tellOfShardsThatCame(fault, within: lengthSeconds)
      try? await Task.sleep(for: .seconds(lengthSeconds))
      await widened
      await lift()
    }
    await engine.tell(.lifted(fault))
  }

  /// A planned change concerns all shards that it moves: those that the coordinator takes until it hears that
  /// it is to give all up, and those that come back.
  private func tellOfShardsThatCome(_ fault: Fault) async {
    guard fault.role == .coordinator, let questions = cluster.questions else { return }
    while !Task.isCancelled {
      // Not at once: a process more would lengthen the pauses that are measured.
      try? await Task.sleep(for: .seconds(1))
      guard !Task.isCancelled else { return }
      let found = await questions.status(patience: .seconds(1))?.shards(of: fault.node) ?? []
      if !found.isEmpty, !Task.isCancelled { await engine.tell(.widened(fault, by: found)) }
    }
  }

  private static let pauseOfQuestions = Duration.milliseconds(500)

  /// Of the shards, too, that came to a coordinator between the question for them and the blow, or were
  /// handed to it after that, by one that did not know yet. While shards move they are several, and all
  /// that is known of them is that no other serves them.
  private func tellOfShardsThatCame(_ fault: Fault, within seconds: Double) async {
    guard fault.role == .coordinator, let questions = cluster.questions else { return }
    let others = cluster.coordinators.map(\.name).filter { $0 != fault.node }
    let end = ContinuousClock.now + .seconds(seconds)
    repeat {
      let patience = max(.milliseconds(500), end - .now)
      let status = await questions.status(patience: patience)
      let unserved = status?.unserved(by: others, of: cluster.shards) ?? []
      if !unserved.isEmpty { await engine.tell(.widened(fault, by: unserved.sorted())) }
      try? await Task.sleep(until: min(end, .now + Self.pauseOfQuestions))
    } while ContinuousClock.now < end && !Task.isCancelled
  }

  private static func shardsText(_ fault: Fault) -> String {
    fault.shards.isEmpty ? "" : ", \(fault.shards.count) shards"
  }

  /// Waits until a node is up again, so that another of its kind may be disturbed.
  func untilReady(_ isReady: () async -> Bool) async {
    let deadline = ContinuousClock.now + .seconds(20)
    while ContinuousClock.now < deadline {
      if await isReady() { return }
      await Pause.milliseconds(20)
    }
  }
}

/// Who is in trouble, so that faults do not pile up on one kind of node until none is left.
actor Referee {
  private var taken: Set<String> = []
  /// Kinds that wait for their turn, the first of which may have it.
  private var queue: [ChaosKind] = []
  private var faults = 0

  /// One of the names that is free, while another one stays free; of a single one, that.
  func take(among names: [String], _ draw: UInt64) -> String? {
    let free = freeNames(names)
    guard free.count > 1 || names.count == 1 && free.count == 1 else { return nil }
    let name = free[Int(draw % UInt64(free.count))]
    taken.insert(name)
    return name
  }

  /// All of them, if nobody has any.
  func takeAll(_ names: [String]) -> Bool {
    guard taken.isDisjoint(with: names) else { return false }
    taken.formUnion(names)
    return true
  }

  /// Takes its place in the queue, once; true while it is the first there.
  func isTurn(of kind: ChaosKind) -> Bool {
    if !queue.contains(kind) { queue.append(kind) }
    return queue.first == kind
  }

  func endTurn(of kind: ChaosKind) { queue.removeAll { $0 == kind } }

  func freeNames(_ names: [String]) -> [String] { names.filter { !taken.contains($0) } }

  func occupy(_ name: String) { taken.insert(name) }

  func giveBack(_ name: String) { taken.remove(name) }

  func nextFault() -> Int {
    faults += 1
    return faults
  }
}

enum ShardName {
  /// FNV-1a: the same in every run, which `Hasher` is not.
  static func hash(_ text: String) -> UInt64 {
    text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
  }
}
