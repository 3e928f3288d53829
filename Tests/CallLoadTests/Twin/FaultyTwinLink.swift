import CallClient
import CallCore
import CallWire

/// A device's connection to the twin. Frames arrive in order, after a short latency.
final class FaultyTwinLink: DeviceLink {
  private weak var delegate: (any DeviceLinkDelegate)?
  private unowned let twin: FaultyTwin
  private var isOpen = true
  /// From now on nothing reaches the device through it.
  var isSilent = false
  private var queued: [ClientFrame] = []
  private var arrivesAt = Timestamp(microseconds: 0)
  private var deliversAt = Timestamp(microseconds: 0)
  var party: Party?
  var wantsOngoing = false

  init(twin: FaultyTwin, delegate: any DeviceLinkDelegate) {
    self.twin = twin
    self.delegate = delegate
  }

  func open() {
    guard isOpen else { return }
    delegate?.linkOpened()
    delegate?.linkReadCompleted()
  }

  func send(_ frame: ClientFrame) { queued.append(frame) }

  func flush() {
    guard isOpen, !queued.isEmpty else { return }
    let frames = queued
    queued = []
    arrivesAt = max(arrivesAt, twin.loop.now + twin.latency())
    twin.loop.schedule(at: arrivesAt) { [self] in
      for frame in frames where isOpen { twin.received(frame, self) }
    }
  }

  func close(abruptly: Bool) {
    guard isOpen else { return }
    flush()
    isOpen = false
    delegate = nil
    twin.loop.schedule(at: twin.loop.now + twin.latency()) { [self] in twin.lost(self) }
  }

  /// The twin's edge breaks the connection.
  func breakOff() {
    guard isOpen else { return }
    isOpen = false
    let delegate = self.delegate
    self.delegate = nil
    twin.lost(self)
    delegate?.linkClosed(.broken("the twin's edge died"))
  }

  func reply(_ id: UInt64, _ reply: ServerReply) { deliver(.reply(id: id, reply)) }

  func deliver(_ frame: ServerFrame) {
    deliversAt = max(deliversAt, twin.loop.now + twin.latency())
    twin.loop.schedule(at: deliversAt) { [self] in
      guard isOpen, !isSilent else { return }
      delegate?.linkReceived(frame)
      delegate?.linkReadCompleted()
    }
  }
}

/// Virtual time: a run of minutes takes as long as its work.
final class VirtualDeviceLoop: DeviceLoop {
  private(set) var now = Timestamp(microseconds: 1_700_000_000_000_000)
  /// The next one last; of the same time the one scheduled first.
  private var timers: [(at: Timestamp, action: () -> Void)] = []

  init() {}

  func schedule(at time: Timestamp, _ action: @escaping () -> Void) {
    let time = max(time, now)
    var (low, high) = (0, timers.count)
    while low < high {
      let middle = (low + high) / 2
      if timers[middle].at > time { low = middle + 1 } else { high = middle }
    }
    timers.insert((time, action), at: low)
  }

  /// Runs timers until `done`, or until `limit` has passed or no timer is left.
  /// - Returns: whether `done` came true.
  func run(for limit: Span, until done: () -> Bool) -> Bool {
    let end = now + limit
    while !done() {
      guard let next = timers.last, next.at <= end else { return false }
      timers.removeLast()
      now = next.at
      next.action()
    }
    return true
  }
}
