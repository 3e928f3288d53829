import CallClient

/// Outages of NATS, of one server or of all, and of all edges.
extension ChaosDirector {
  /// Of three the leader of JetStream, every other time.
  func disturbNATS(_ entry: ChaosPlan.Entry, _ random: inout SplitMix64) async {
    var draw = random.next()
    let names = cluster.nats.map(\.process.name)
    if names.count > 1, draw & 1 == 0,
      let leader = await cluster.nats[0].monitor.jetStream()?.metaCluster?.leader,
      let place = names.firstIndex(of: leader)
    {
      draw = UInt64(place)
    }
    guard let name = await takeOne(of: names, draw) else { return }
    await outage(entry, of: cluster.nats.indices.filter { names[$0] == name }, &random)
    await referee.giveBack(name)
  }

  func disturbAllNATS(_ entry: ChaosPlan.Entry, _ random: inout SplitMix64) async {
    let names = cluster.nats.map(\.process.name)
    guard await takeAll(names) else { return }
    await outage(entry, of: Array(cluster.nats.indices), &random)
    for name in names { await referee.giveBack(name) }
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
    guard await takeAll(names) else { return }
    let fault = await makeFault(
      entry.kind, edges[0], node: names.joined(separator: " "), edges: edges.indices)
    await play(
      fault, begin: { for edge in edges { edge.freeze() } }, lengthSeconds: entry.lengthSeconds,
      lift: { for edge in edges { edge.wake() } })
    for edge in cluster.edges { await untilReady { await edge.isReady() } }
    for name in names { await referee.giveBack(name) }
  }

  // MARK: Victims

  /// Waits a while for one whose likes are well.
  private func takeOne(of names: [String], _ draw: UInt64) async -> String? {
    for _ in 0..<100 {
      if let name = await referee.take(among: names, draw) { return name }
      guard !Task.isCancelled else { return nil }
      await Pause.milliseconds(100)
    }
    return nil
  }

  /// Waits a while until nobody does anything to any of them.
  private func takeAll(_ names: [String]) async -> Bool {
    for _ in 0..<300 {
      if await referee.takeAll(names) { return true }
      guard !Task.isCancelled else { return false }
      await Pause.milliseconds(100)
    }
    return false
  }
}
