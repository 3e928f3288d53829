import CallCore

extension Stage {
  func showProgress() {
    let p99 = book.takeRecentRingP99()
    let placedSince = placed - placedAtLastLook
    placedAtLastLook = placed
    rig.progress.update {
      $0.devicesConnected = rig.connectedCount
      $0.callsLive = live.count
      $0.callsPlaced = placed
      $0.callsCompleted = completed
      $0.errors = failed
      $0.violations = checker.counts.values.reduce(0, +)
      $0.done = arrivalsDone ? completed + failed + faults.result.changedCount : placed
      $0.faults = faults.result.injected.values.reduce(0, +)
      $0.rate = Double(placedSince)
      $0.ringP99 = p99 ?? $0.ringP99
    }
  }

  func result() -> RunResult {
    var result = rig.setupResult
    result.callsExpected = expected
    result.callsPlaced = placed
    result.callsCompleted = completed
    result.callsByPart = byPart
    result.failures.merge(failures) { $0 + $1 }
    result.failureExamples = failureExamples
    result.correctness = checker.counts
    result.examples = checker.examples
    result.latency.merge(book.histograms) { $1 }
    result.rings = rings
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
