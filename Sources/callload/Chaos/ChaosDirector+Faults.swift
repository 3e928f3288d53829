import CallClient
import CallCore

/// What each kind of fault does.
extension ChaosDirector {
  /// Kills or freezes a node.
  func disturb(_ node: NodeMember, _ entry: ChaosPlan.Entry) async {
    let process = node.process
    let fault = await makeFault(entry.kind, process)
    switch entry.kind {
    case .killCoordinator, .killEdge, .killPush:
      await play(
        fault, begin: { process.kill() }, lengthSeconds: entry.lengthSeconds,
        lift: { await startAgain(process) { await node.isReady() } })
    default:
      await play(
        fault, begin: { process.freeze() }, lengthSeconds: entry.lengthSeconds,
        lift: { process.wake() })
    }
    await untilReady { await node.isReady() }
  }

  func startAgain(_ process: SupervisedProcess, isReady: () async -> Bool) async {
    do {
      try await process.startAgain()
      await untilReady(isReady)
    } catch {
      say("\(process.name) does not start again: \(error)")
    }
  }

  /// Closes all of a node's ways to NATS. A silent cut ends by itself or with a reset.
  func cutOff(_ node: NodeMember, _ entry: ChaosPlan.Entry, isSilent: Bool) async {
    let fault = await makeFault(.partition, node.process)
    func set(_ mode: TCPRelay.Mode) async {
      for relay in node.relays { await relay.set(mode, by: fault.id) }
    }
    await play(
      fault, begin: { await set(isSilent ? .silent : .refusing) },
      lengthSeconds: entry.lengthSeconds,
      lift: {
        if isSilent, fault.id % 2 == 0 { await set(.refusing) }
        await set(.open)
        await untilReady { await node.isReady() }
      })
  }

  /// Coordinators first, as docs/operations.md has it; each is back before the next one goes.
  func restartAll(_ entry: ChaosPlan.Entry) async {
    for node in cluster.coordinators + cluster.edges {
      guard !Task.isCancelled else { return }
      let likes = (node.process.role == .edge ? cluster.edges : cluster.coordinators).map(\.name)
      guard await claim({ await referee.take(node.name, among: likes) }) != nil else { continue }
      let fault = await makeFault(.rollingRestart, node.process)
      await play(
        fault,
        begin: {},
        lengthSeconds: 0,
        lift: {
          if await !node.process.terminate(patience: .seconds(40)) {
            say("\(node.name) did not end by itself with status 0")
            await engine.tell(.incident("\(node.name) did not end in good order"))
          }
          await startAgain(node.process) { await node.isReady() }
          await untilServing(node)
          try? await Task.sleep(for: .seconds(entry.lengthSeconds))
        })
      await referee.giveBack(node.name)
    }
  }

  func drain(_ node: NodeMember, _ entry: ChaosPlan.Entry) async {
    guard let questions = cluster.questions else { return }
    let fault = await makeFault(.drain, node.process)
    await play(
      fault,
      begin: {},
      lengthSeconds: 0,
      lift: {
        if await !questions.drain(node.name) {
          await engine.tell(.incident("callctl drain \(node.name) failed"))
        }
        try? await Task.sleep(for: .seconds(entry.lengthSeconds))
        if await !questions.resume(node.name) {
          await engine.tell(.incident("callctl resume \(node.name) failed"))
        }
        await untilServing(node)
      })
    await untilReady { await node.isReady() }
  }

  /// Waits until a coordinator serves shards again.
  private func untilServing(_ node: NodeMember) async {
    guard node.process.role == .coordinator else { return }
    await untilReady { await node.servedShards() ?? 0 > 0 }
  }
}
