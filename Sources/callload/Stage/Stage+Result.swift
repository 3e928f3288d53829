import CallCore

extension Stage {
  func showProgress() {
    let p99 = book.takeRecentRingP99()
    let placedSince = result.callsPlaced - placedAtLastLook
    placedAtLastLook = result.callsPlaced
    rig.progress.update {
      $0.devicesConnected = rig.connectedCount
      $0.callsLive = live.count
      $0.callsPlaced = result.callsPlaced
      $0.callsCompleted = result.callsCompleted
      $0.errors = failed
      $0.violations = checker.counts.values.reduce(0, +)
      let over = result.callsCompleted + failed + faults.result.changedCount
      $0.done = arrivalsDone ? over : result.callsPlaced
      $0.faults = faults.result.injected.values.reduce(0, +)
      $0.rate = Double(placedSince)
      $0.ringP99 = p99 ?? $0.ringP99
    }
  }

  func finalResult() -> RunResult {
    let setup = rig.setupResult
    result.devicesConnected = setup.devicesConnected
    result.devicesRegistered = setup.devicesRegistered
    result.registrationsOfUnknownFate = setup.registrationsOfUnknownFate
    result.interrupted = setup.interrupted
    result.correctness = checker.counts
    result.examples = checker.examples
    result.latency.merge(book.histograms) { $1 }
    result.loadSeconds = max(0, ((interruptedAt ?? arrivalsEndAt) - startedAt).seconds)
    result.pushes = pushes?.result
    if options.isDisturbed {
      var chaos = faults.result
      chaos.commandWait = checker.waits
      chaos.commandsRetried = checker.repeatedCommands
      result.chaos = chaos
    }
    return result
  }
}
