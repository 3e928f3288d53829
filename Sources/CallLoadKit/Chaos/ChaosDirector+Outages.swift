import CallClient
import CallCore
import CallProcesses

extension ChaosDirector {
  /// Outages of NATS take turns, with a pause as long as the last one; otherwise NATS would mostly be away.
  func inTurn(
    _ entry: ChaosPlan.Entry, until end: ContinuousClock.Instant, _ body: () async -> Void
  ) async {
    while !(await referee.isTurn(of: entry.kind)) {
      guard !Task.isCancelled, ContinuousClock.now < end else {
        return await referee.endTurn(of: entry.kind)
      }
      await Pause.milliseconds(100)
    }
    await body()
    await untilReady { await isServed() }
    // No pause follows the last one.
    try? await Task.sleep(until: min(end, .now + .seconds(entry.lengthSeconds)))
    await referee.endTurn(of: entry.kind)
  }

  private func isServed() async -> Bool {
    guard let callctl = cluster.callctl else { return true }
    let status = await callctl.status(timeout: .seconds(1))
    return status?.servedCount == cluster.shards
  }

  /// One server, every other time the leader of JetStream; or all.
  func disturbNATS(_ entry: ChaosPlan.Entry, _ random: inout SplitMix64) async {
    let names = cluster.nats.map(\.process.name)
    var victims = Array(names.indices)
    if entry.kind.oneServerKind == nil {
      victims = [Int(random.next() % UInt64(names.count))]
      if names.count > 1, Bool.random(using: &random),
        let leader = await cluster.nats[0].monitor.jetStream()?.metaCluster?.leader,
        let place = names.firstIndex(of: leader)
      {
        victims = [place]
      }
    }
    let nodes = cluster.nodes + cluster.pushGateways
    let fault = await makeFault(
      entry.kind, cluster.nats[victims[0]].process,
      node: victims.map { names[$0] }.joined(separator: " "))
    await disturb(
      victims.map { number in
        let (server, count) = (cluster.nats[number], cluster.nats.count)
        return Victim(
          process: server.process,
          relays: nodes.compactMap { $0.relays.isEmpty ? nil : $0.relays[number] },
          isReady: { await server.monitor.isReady(servers: count) })
      }, fault, entry, isSilent: Bool.random(using: &random))
  }

  func disturbAllEdges(_ entry: ChaosPlan.Entry) async {
    let names = cluster.edges.map(\.name)
    guard await claim(attempts: 300, { await referee.claimAll(names) }) != nil else { return }
    let fault = await makeFault(
      entry.kind, cluster.edges[0].process, node: names.joined(separator: " "),
      edges: cluster.edges.indices)
    await disturb(cluster.edges.map(Victim.init), fault, entry)
    for name in names { await referee.giveBack(name) }
  }
}

/// The nodes that are disturbed, so that of each kind of node one is left.
actor Referee {
  private var taken: Set<String> = []
  /// Kinds of outages that wait; the first one has its turn.
  private var queue: [ChaosKind] = []
  private var faults = 0

  /// Takes a node that is free, while another one stays free; of a single one, that.
  /// - Parameter wanted: the node to take; nil: the one that `draw` chooses.
  func claim(_ wanted: String? = nil, among names: [String], draw: UInt64 = 0) -> String? {
    let free = names.filter { !taken.contains($0) }
    guard free.count > 1 || names.count == 1 && free.count == 1 else { return nil }
    let name = wanted ?? free[Int(draw % UInt64(free.count))]
    guard free.contains(name) else { return nil }
    taken.insert(name)
    return name
  }

  func claimAll(_ names: [String]) -> [String]? {
    guard taken.isDisjoint(with: names) else { return nil }
    taken.formUnion(names)
    return names
  }

  func giveBack(_ name: String) { taken.remove(name) }

  /// Puts the kind into the queue, once; true while it is the first there.
  func isTurn(of kind: ChaosKind) -> Bool {
    if !queue.contains(kind) { queue.append(kind) }
    return queue.first == kind
  }

  func endTurn(of kind: ChaosKind) { queue.removeAll { $0 == kind } }

  func nextFault() -> Int {
    faults += 1
    return faults
  }
}
