import CallClient
import CallCore

/// Outages of NATS, of one server or of all, and of all edges.
extension ChaosDirector {
  /// Outages of NATS take turns: one begins when the shards answer again after the last, and the length of
  /// the last has passed once more. Otherwise there would be no NATS most of the time, and nothing to see.
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
    // Nobody has to wait for the calm after the last.
    try? await Task.sleep(until: min(end, .now + .seconds(entry.lengthSeconds)))
    await referee.endTurn(of: entry.kind)
  }

  private func isServed() async -> Bool {
    guard let questions = cluster.questions else { return true }
    let status = await questions.status(patience: .seconds(1))
    return status?.servedCount == cluster.shards
  }

  /// One server, every other time the leader of JetStream; or all.
  func disturbNATS(_ entry: ChaosPlan.Entry, _ random: inout SplitMix64) async {
    let names = cluster.nats.map(\.process.name)
    guard entry.kind.oneServerKind == nil else {
      return await outage(entry, of: Array(cluster.nats.indices), &random)
    }
    var victim = Int(random.next() % UInt64(names.count))
    if names.count > 1, Bool.random(using: &random),
      let leader = await cluster.nats[0].monitor.jetStream()?.metaCluster?.leader,
      let place = names.firstIndex(of: leader)
    {
      victim = place
    }
    await outage(entry, of: [victim], &random)
  }

  private func outage(
    _ entry: ChaosPlan.Entry, of servers: [Int], _ random: inout SplitMix64
  ) async {
    let members = servers.map { cluster.nats[$0] }
    let names = members.map(\.process.name).joined(separator: " ")
    let isSilent = Bool.random(using: &random)
    let fault = await makeFault(entry.kind, members[0].process, node: names)
    switch entry.kind.oneServerKind ?? entry.kind {
    case .killNATS:
      await play(
        fault, begin: { for member in members { member.process.kill() } },
        lengthSeconds: entry.lengthSeconds, lift: { await startAgain(members) })
    case .freezeNATS:
      await play(
        fault, begin: { for member in members { member.process.freeze() } },
        lengthSeconds: entry.lengthSeconds,
        lift: { for member in members { member.process.wake() } })
    default:
      await play(
        fault, begin: { await cut(servers, isSilent ? .silent : .refusing, by: fault.id) },
        lengthSeconds: entry.lengthSeconds,
        lift: {
          // A silent cut ends by itself or with a reset.
          if isSilent, fault.id % 2 == 0 { await cut(servers, .refusing, by: fault.id) }
          await cut(servers, .open, by: fault.id)
        })
    }
    for member in members {
      await untilReady { await member.monitor.isReady(servers: cluster.nats.count) }
    }
  }

  /// All at once: a majority of three is needed for any to be ready.
  private func startAgain(_ members: [NATSMember]) async {
    await withTaskGroup(of: Void.self) { group in
      for member in members {
        group.addTask {
          await startAgain(member.process) {
            await member.monitor.isReady(servers: cluster.nats.count)
          }
        }
      }
    }
  }

  private func cut(_ servers: [Int], _ mode: TCPRelay.Mode, by fault: Int) async {
    for node in cluster.coordinators + cluster.edges + cluster.pushGateways {
      for server in servers where server < node.relays.count {
        await node.relays[server].set(mode, by: fault)
      }
    }
  }

  func freezeAllEdges(_ entry: ChaosPlan.Entry) async {
    let edges = cluster.edges.map(\.process)
    let names = edges.map(\.name)
    guard await claim(attempts: 300, { await referee.takeAll(names) }) != nil else { return }
    let fault = await makeFault(
      entry.kind, edges[0], node: names.joined(separator: " "), edges: edges.indices)
    await play(
      fault, begin: { for edge in edges { edge.freeze() } }, lengthSeconds: entry.lengthSeconds,
      lift: { for edge in edges { edge.wake() } })
    for edge in cluster.edges { await untilReady { await edge.isReady() } }
    for name in names { await referee.giveBack(name) }
  }
}
