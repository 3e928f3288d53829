import CallClient
import CallCore
import CallWire

/// Connects all devices, then registers them, with a bound on what is under way.
final class Ramp {
  private enum Step { case connecting, registering, over }

  private unowned let rig: LoadRig
  private var step = Step.connecting
  private let startedAt: Timestamp
  private let giveUpAt: Timestamp
  private var next = 0
  private var inFlight = 0
  private let completion: () -> Void
  private(set) var book = LatencyBook()
  private(set) var seconds: Double = 0

  init(_ rig: LoadRig, _ completion: @escaping () -> Void) {
    self.rig = rig
    self.completion = completion
    startedAt = rig.loop.now
    giveUpAt = startedAt + Span(seconds: rig.options.rampTimeoutSeconds)
  }

  func begin() {
    advance()
    finishIfDone()
  }

  /// Begins what the rate and the bound on what is under way allow.
  private func advance() {
    switch step {
    case .connecting: connectMore()
    case .registering: registerMore()
    case .over: break
    }
  }

  private var mayBegin: Bool { next < rig.devices.count && !rig.isInterrupted }

  private func connectMore() {
    guard let rate = rig.options.rampPerSecond else {
      while mayBegin, inFlight < rig.options.connectsInFlight { connectNext(rig.loop.now) }
      return
    }
    guard mayBegin else { return }
    let due = startedAt + Span(seconds: Double(next) / rate)
    if due <= rig.loop.now { connectNext(due) }
    rig.loop.schedule(at: max(due, rig.loop.now)) { [weak self] in self?.advance() }
  }

  private func connectNext(_ intended: Timestamp) {
    let device = rig.devices[next]
    next += 1
    inFlight += 1
    device.setup = .connecting
    device.connectAt = intended
    device.driver.start()
  }

  func attached(_ device: LoadDevice) {
    guard device.setup == .connecting else { return }
    device.setup = .connected
    rig.connectedCount += 1
    guard step == .connecting else { return }
    book.record(.connect, rig.loop.now - device.connectAt)
    stepDone()
  }

  /// The device was refused, or trusts no edge: another attempt would fail as well.
  func failed(_ device: LoadDevice) {
    guard device.setup == .connecting else { return }
    device.setup = .refused
    if step == .connecting { stepDone() }
  }

  private func registerMore() {
    while mayBegin, inFlight < rig.options.connectsInFlight {
      let device = rig.devices[next]
      next += 1
      guard registersNow(device) else { continue }
      inFlight += 1
      device.registerAt = rig.loop.now
      rig.registrations.register(device)
    }
  }

  private func registersNow(_ device: LoadDevice) -> Bool {
    device.setup == .connected && rig.registrations.registers(device)
      && !rig.registrations.registersLate(device)
  }

  /// - Parameter isAcknowledged: the cluster has stored the registration.
  func registerReplied(_ device: LoadDevice, isAcknowledged: Bool) {
    if isAcknowledged { book.record(.register, rig.loop.now - device.registerAt) }
    if step == .registering { stepDone() }
  }

  private func stepDone() {
    inFlight -= 1
    // Later, since this may be called while a device reads.
    rig.loop.schedule(at: rig.loop.now) { [weak self] in
      self?.advance()
      self?.finishIfDone()
    }
  }

  private func finishIfDone() {
    guard next >= rig.devices.count, inFlight == 0 else { return }
    if step == .connecting { beginRegistering() } else { finish() }
  }

  private func beginRegistering() {
    seconds = (rig.loop.now - startedAt).seconds
    step = .registering
    (next, inFlight) = (0, 0)
    let registering = rig.devices.count { registersNow($0) }
    rig.progress.begin(.registering, of: registering)
    begin()
  }

  func tick(at now: Timestamp) {
    guard step != .over else { return }
    rig.progress.update {
      $0.done = step == .connecting ? rig.connectedCount : rig.registrations.count
      $0.devicesConnected = rig.connectedCount
      $0.errors = rig.setupFailures.values.reduce(0, +)
    }
    guard giveUpAt < now else { return }
    if step == .connecting, rig.connectedCount > 0 {
      // Devices that still try may connect later, but do not count here.
      beginRegistering()
    } else {
      finish()
    }
  }

  func finish() {
    guard step != .over else { return }
    if step == .connecting { seconds = (rig.loop.now - startedAt).seconds }
    step = .over
    completion()
  }
}
