import CallClient
import CallCore
import CallProcesses

extension ChaosDirector {
  /// A process, the relays between it and NATS, and whether it is up.
  struct Victim {
    let process: SupervisedProcess
    let relays: [TCPRelay]
    let isReady: @Sendable () async -> Bool
  }

  func disturbOne(
    of nodes: [NodeProcess], _ entry: ChaosPlan.Entry, _ random: inout SplitMix64
  ) async {
    let isSilent = Bool.random(using: &random)
    await withVictim(among: nodes, &random) { node in
      let fault = await makeFault(entry.kind, node.process)
      await disturb([Victim(node)], fault, entry, isSilent: isSilent)
    }
  }

  /// Kills processes, freezes them, or cuts their relays to NATS, and undoes it when the fault is over.
  func disturb(
    _ victims: [Victim], _ fault: ChaosFault, _ entry: ChaosPlan.Entry, isSilent: Bool = false
  ) async {
    func cut(_ mode: TCPRelay.Mode) async {
      for relay in victims.flatMap(\.relays) { await relay.set(mode, by: fault.id) }
    }
    func untilAllAreReady() async { for victim in victims { await untilReady(victim.isReady) } }
    func begin() async {
      switch fault.kind.means {
      case .kill: for victim in victims { victim.process.kill() }
      case .freeze: for victim in victims { victim.process.freeze() }
      case .cut: await cut(isSilent ? .silent : .refusing)
      case nil: break
      }
    }
    func lift() async {
      switch fault.kind.means {
      case .kill: await startAgain(victims)
      case .freeze: for victim in victims { victim.process.wake() }
      case .cut:
        // A silent cut ends by itself or with a reset.
        if isSilent, fault.id % 2 == 0 { await cut(.refusing) }
        await cut(.open)
        if fault.kind == .partition { await untilAllAreReady() }
      case nil: break
      }
    }
    await play(fault, begin: begin, lengthSeconds: entry.lengthSeconds, lift: lift)
    await untilAllAreReady()
  }

  /// Starts all at once: three nats-servers need a majority for any to be ready.
  private func startAgain(_ victims: [Victim]) async {
    await withTaskGroup(of: Void.self) { group in
      for victim in victims {
        group.addTask {
          do {
            try await victim.process.startAgain()
            await untilReady(victim.isReady)
          } catch {
            say("\(victim.process.name) does not start again: \(error)")
          }
        }
      }
    }
  }

  /// Coordinators first, as docs/operations.md says; each is back before the next one stops.
  func restartAll(_ entry: ChaosPlan.Entry) async {
    for node in cluster.nodes {
      guard !Task.isCancelled else { return }
      let likes = (node.process.role == .edge ? cluster.edges : cluster.coordinators).map(\.name)
      guard await claim({ await referee.claim(node.name, among: likes) }) != nil else { continue }
      let fault = await makeFault(.rollingRestart, node.process)
      await play(
        fault,
        lift: {
          if await !node.process.terminate(timeout: .seconds(40)) {
            say("\(node.name) did not end by itself with status 0")
            await engine.note(.incident("\(node.name) did not end in good order"))
          }
          await startAgain([Victim(node)])
          await untilServing(node)
          try? await Task.sleep(for: .seconds(entry.lengthSeconds))
        })
      await referee.giveBack(node.name)
    }
  }

  func drain(_ node: NodeProcess, _ entry: ChaosPlan.Entry) async {
    guard let callctl = cluster.callctl else { return }
    let fault = await makeFault(.drain, node.process)
    await play(
      fault,
      lift: {
        for name in node.roleNames where await !callctl.drain(name) {
          await engine.note(.incident("callctl drain \(name) failed"))
        }
        try? await Task.sleep(for: .seconds(entry.lengthSeconds))
        for name in node.roleNames where await !callctl.resume(name) {
          await engine.note(.incident("callctl resume \(name) failed"))
        }
        await untilServing(node)
      })
    await untilReady { await node.isReady() }
  }

  private func untilServing(_ node: NodeProcess) async {
    guard node.process.role != .edge else { return }
    await untilReady { await node.servedShards() ?? 0 > 0 }
  }
}

extension ChaosDirector.Victim {
  init(_ node: NodeProcess) {
    self.init(process: node.process, relays: node.relays, isReady: node.isReady)
  }
}
