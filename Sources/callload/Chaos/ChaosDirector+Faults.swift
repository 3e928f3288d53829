import CallClient
import CallCore

/// What each kind of fault does.
extension ChaosDirector {
  /// Kills or freezes a node.
  func disturb(_ process: SupervisedProcess, _ entry: ChaosPlan.Entry) async {
    guard let node = node(process) else { return }
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
  func cutOff(_ process: SupervisedProcess, _ entry: ChaosPlan.Entry, isSilent: Bool) async {
    guard let node = node(process) else { return }
    let fault = await makeFault(.partition, process)
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
  func restartAll(_ entry: ChaosPlan.Entry, _ random: inout SplitMix64) async {
    for node in cluster.coordinators + cluster.edges {
      guard !Task.isCancelled else { return }
      guard await takeInTurn(node.name) else { continue }
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
          if node.process.role == .coordinator {
            await untilReady { await node.servedShards() ?? 0 > 0 }
          }
          try? await Task.sleep(for: .seconds(entry.lengthSeconds))
        })
      await referee.giveBack(node.name)
    }
  }

  private func takeInTurn(_ name: String) async -> Bool {
    let likes = (cluster.coordinators + cluster.edges).map(\.process)
      .filter { like in like.role == cluster.processes.first { $0.name == name }?.role }
      .map(\.name)
    for _ in 0..<100 {
      if await referee.take(name, among: likes) { return true }
      guard !Task.isCancelled else { return false }
      await Pause.milliseconds(100)
    }
    return false
  }

  func drain(_ process: SupervisedProcess, _ entry: ChaosPlan.Entry) async {
    guard let node = node(process), let questions = cluster.questions else { return }
    let fault = await makeFault(.drain, process)
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
        if process.role == .coordinator {
          await untilReady { await node.servedShards() ?? 0 > 0 }
        }
      })
    await untilReady { await node.isReady() }
  }
}

extension Referee {
  /// This one, if it is free and another of its kind is well, or it has none.
  func take(_ name: String, among names: [String]) -> Bool {
    guard let index = names.firstIndex(of: name) else { return false }
    // `take(among:_:)` draws from those that are free.
    let free = freeNames(names)
    guard free.contains(name), free.count > 1 || names.count == 1 else { return false }
    occupy(names[index])
    return true
  }
}
