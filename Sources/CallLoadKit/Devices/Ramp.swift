import CallClient
import CallCore
import CallWire

/// Connects all devices, then registers them, with a bound on what is under way.
final class Ramp {
  private enum Step { case connecting, registering, over }

  private unowned let fleet: DeviceFleet
  private var step = Step.connecting
  private let startedAt: Timestamp
  private let giveUpAt: Timestamp
  private var next = 0
  private var inFlight = 0
  private let completion: () -> Void
  private(set) var book = LatencyBook()
  private(set) var seconds: Double = 0

  init(_ fleet: DeviceFleet, _ completion: @escaping () -> Void) {
    self.fleet = fleet
    self.completion = completion
    startedAt = fleet.loop.now
    giveUpAt = startedAt + Span(seconds: fleet.options.rampTimeoutSeconds)
  }

  func begin() {
    advance()
    finishIfDone()
  }

  /// Begins what the bound on what is under way allows.
  private func advance() {
    switch step {
    case .connecting: connectMore()
    case .registering: registerMore()
    case .over: break
    }
  }

  private var mayBegin: Bool { next < fleet.devices.count && !fleet.isInterrupted }

  private func connectMore() {
    while mayBegin, inFlight < fleet.options.connectsInFlight {
      let device = fleet.devices[next]
      next += 1
      inFlight += 1
      device.setup = .connecting
      device.connectAt = fleet.loop.now
      device.driver.start()
    }
  }

  func attached(_ device: LoadDevice) {
    guard device.setup == .connecting else { return }
    device.setup = .connected
    fleet.connectedCount += 1
    guard step == .connecting else { return }
    book.record(.connect, fleet.loop.now - device.connectAt)
    stepDone()
  }

  /// The device was refused, or trusts no edge: another attempt would fail as well.
  func failed(_ device: LoadDevice) {
    guard device.setup == .connecting else { return }
    device.setup = .refused
    if step == .connecting { stepDone() }
  }

  private func registerMore() {
    while mayBegin, inFlight < fleet.options.connectsInFlight {
      let device = fleet.devices[next]
      next += 1
      guard registersNow(device) else { continue }
      inFlight += 1
      device.registerAt = fleet.loop.now
      fleet.registrations.register(device)
    }
  }

  private func registersNow(_ device: LoadDevice) -> Bool {
    device.setup == .connected && fleet.registrations.registers(device)
      && !fleet.registrations.registersLate(device)
  }

  /// - Parameter isAcknowledged: the cluster has stored the registration.
  func registerReplied(_ device: LoadDevice, isAcknowledged: Bool) {
    if isAcknowledged { book.record(.register, fleet.loop.now - device.registerAt) }
    if step == .registering { stepDone() }
  }

  private func stepDone() {
    inFlight -= 1
    // Later, since this may be called while a device reads.
    fleet.loop.schedule(at: fleet.loop.now) { [weak self] in
      self?.advance()
      self?.finishIfDone()
    }
  }

  private func finishIfDone() {
    guard next >= fleet.devices.count, inFlight == 0 else { return }
    if step == .connecting { beginRegistering() } else { finish() }
  }

  private func beginRegistering() {
    seconds = (fleet.loop.now - startedAt).seconds
    step = .registering
    (next, inFlight) = (0, 0)
    let registering = fleet.devices.count { registersNow($0) }
    fleet.progress.begin(.registering, of: registering)
    begin()
  }

  func tick(at now: Timestamp) {
    guard step != .over else { return }
    fleet.progress.update {
      $0.done = step == .connecting ? fleet.connectedCount : fleet.registrations.count
      $0.devicesConnected = fleet.connectedCount
      $0.errors = fleet.setupFailures.values.reduce(0, +)
    }
    guard giveUpAt < now else { return }
    if step == .connecting, fleet.connectedCount > 0 {
      // Devices that still try may connect later, but do not count here.
      beginRegistering()
    } else {
      finish()
    }
  }

  func finish() {
    guard step != .over else { return }
    if step == .connecting { seconds = (fleet.loop.now - startedAt).seconds }
    step = .over
    completion()
  }
}
