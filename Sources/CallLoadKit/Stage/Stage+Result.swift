import CallClient
import CallCore
import CallWire

extension Stage {
  func showProgress() {
    let p99 = book.drainRecentRingP99()
    let placedSince = result.callsPlaced - placedAtLastLook
    placedAtLastLook = result.callsPlaced
    fleet.progress.update {
      $0.devicesConnected = fleet.connectedCount
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
    let setup = fleet.setupResult
    result.devicesConnected = setup.devicesConnected
    result.devicesRegistered = setup.devicesRegistered
    result.nearerMoves = setup.nearerMoves
    result.registrationsOfUnknownFate = setup.registrationsOfUnknownFate
    result.interrupted = setup.interrupted
    result.correctness = checker.counts
    result.examples = checker.examples
    result.latency.merge(book.histograms) { $1 }
    result.loadSeconds = max(0, ((interruptedAt ?? arrivalsEndAt) - startedAt).seconds)
    result.pushes = pushes?.result
    result.history = histories?.result
    result.ongoing = checker.ongoing.result
    if options.isDisturbed {
      var chaos = faults.result
      chaos.courses = faults.courses
      chaos.commandWait = checker.waits
      chaos.commandsRetried = checker.repeatedCommands
      result.chaos = chaos
    }
    return result
  }

  /// - Parameter due: when what was to happen was due, from which latency counts.
  func record(_ phase: LatencyPhase, due: Timestamp, at now: Timestamp) {
    book.record(phase, now - due)
    result.series?.record(phase, now - due, dueSeconds: (due - startedAt).seconds)
  }

  /// All awake devices of a call have the invite; the last one got it now.
  func rang(_ plan: CallPlan, at now: Timestamp) {
    record(.ring, due: plan.placeAt, at: now)
    guard options.keepsRings else { return }
    result.rings.append(
      RingSample(
        dueSeconds: (plan.placeAt - startedAt).seconds,
        microseconds: UInt64(max(1, (now - plan.placeAt).microseconds))))
  }

  /// Interval of pings of all slices, each from another device. They measure the part of a ring that sockets and this loop take.
  private static let pingInterval: Span = .milliseconds(50)

  func schedulePing(at due: Timestamp) {
    loop.schedule(at: due) { [weak self] in
      guard let self, !arrivalsDone else { return }
      ping(due: due)
      schedulePing(at: due + options.slice.share(of: Self.pingInterval))
    }
  }

  private func ping(due: Timestamp) {
    for _ in 0..<8 {
      guard let device = devices.randomElement(using: &pingRandom) else { return }
      guard device.ping == nil, device.isAttached, !device.driver.machine.isMoving,
        !device.driver.isSuspended
      else { continue }
      if let request = device.submit(.ping) { device.ping = (request, due) }
      return
    }
  }

  func pingReplied(_ device: LoadDevice, _ request: UInt64, _ reply: ServerReply) {
    guard let ping = device.ping, ping.request == request else { return }
    device.ping = nil
    if case .done = reply { book.record(.hop, fleet.arrivedAt - ping.due) }
  }
}
