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
  /// While it moves to another edge: the connection there.
  var next: NextLink?
  /// Who hears of a connection that once was the next one.
  private var relay: NextLink?
  var setup = Setup.idle
  var isRegistered = false
  /// When its connection was to begin.
  var connectAt = Timestamp(microseconds: 0)
  var registerAt = Timestamp(microseconds: 0)
  var calls: [CallID] = []
  /// The edge that it is, or was last, connected to: its place among the edges' URLs.
  var edge = 0
  /// Where it moves to.
  var nextEdge = 0
  /// Since when it has no session, against its will.
  var lostAt: Timestamp?
  /// It stays away on purpose.
  var isHeld = false
  /// It has no session, and only a push wakes it.
  var isAsleep = false
  /// The call that a push woke it for, until it is attached.
  var wokenFor: CallID?
  /// The request of a ping that waits for its reply, and when it was due.
  var ping: (request: UInt64, due: Timestamp)?
  /// Frames are being read: what is sent goes out at the end of the burst.
  var isReading = false
  /// Among the devices whose deadlines are looked at often.
  var isWatched = false
  /// A timer for acknowledgements runs.
  private var acksArmed = false

  func connectNext(to edge: String, _ network: any DeviceNetwork) {
    next?.close(abruptly: true)
    let opened = NextLink(owner: self)
    next = opened
    opened.link = network.connect(to: edge, delegate: opened)
  }

  func switchOver() {
    link?.flush()
    link?.close(abruptly: false)
    relay = next
    link = next?.link
    relay?.isCurrent = true
    next = nil
  }

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

// MARK: Moving to another edge

extension SimulatedDevice: NextLinkOwner {
  func nextOpened() { rig.run(self) { $0.opened(.next, now: $1, into: &$2) } }

  func nextReceived(_ frame: ServerFrame) { rig.received(self, frame, on: .next) }

  func nextClosed(_ cause: LinkClosed) {
    next = nil
    rig.nextLinkClosed(self, cause)
  }
}
