import CallClient
import CallCore
import CallWire

/// One device: its machine, its connection, and the calls that it is in.
final class SimulatedDevice: DeviceLinkDelegate {
  enum Setup { case idle, connecting, connected, refused }

  let index: Int
  unowned let rig: LoadRig
  var machine: ClientMachine
  var link: (any DeviceLink)?
  var setup = Setup.idle
  var isRegistered = false
  /// When its connection was to begin.
  var connectAt = Timestamp(microseconds: 0)
  var registerAt = Timestamp(microseconds: 0)
  var calls: [CallID] = []
  /// It stays away on purpose.
  var isHeld = false
  /// Frames are being read: what is sent goes out at the end of the burst.
  var isReading = false
  /// Among the devices whose deadlines are looked at often.
  var isWatched = false
  /// A timer for acknowledgements runs.
  private var acksArmed = false

  init(index: Int, rig: LoadRig, machine: ClientMachine) {
    self.index = index
    self.rig = rig
    self.machine = machine
  }

  func linkOpened() {
    isReading = true
    rig.run(self) { $0.opened(now: $1, into: &$2) }
  }

  func linkReceived(_ frame: ServerFrame) {
    isReading = true
    rig.received(self, frame)
  }

  func linkReadCompleted() {
    let now = rig.loop.now
    machine.heard(now: now)
    rig.run(self) { $0.readCompleted(now: $1, into: &$2) }
    armAcks()
    isReading = false
    link?.flush()
  }

  private func armAcks() {
    guard !acksArmed, let due = machine.ackDeadline else { return }
    acksArmed = true
    rig.loop.schedule(at: due) { [weak self] in
      guard let self else { return }
      acksArmed = false
      // They may have gone with a command, and others have come since.
      if let due = machine.ackDeadline, due <= rig.loop.now { rig.fire(self) } else { armAcks() }
    }
  }

  func linkClosed(_ cause: LinkClosed) {
    isReading = false
    link = nil
    rig.linkClosed(self, cause)
  }
}
