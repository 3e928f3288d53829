import CallClient
import CallCore
import CallWire

extension Stage {
  /// Of pings, each from another device: they measure the part of a ring that sockets and this loop take.
  private static let pingPause: Span = .milliseconds(50)

  func schedulePing(at due: Timestamp) {
    loop.schedule(at: due) { [weak self] in
      guard let self, !arrivalsDone else { return }
      ping(due: due)
      schedulePing(at: due + Self.pingPause)
    }
  }

  private func ping(due: Timestamp) {
    for _ in 0..<8 {
      guard let device = devices.randomElement(using: &pingRandom) else { return }
      guard device.ping == nil, device.isAttached, !device.driver.machine.isMoving,
        !device.driver.isSuspended
      else { continue }
      if let request = device.say(.ping) { device.ping = (request, due) }
      return
    }
  }

  func pingReplied(_ device: LoadDevice, _ request: UInt64, _ reply: ServerReply) {
    guard let ping = device.ping, ping.request == request else { return }
    device.ping = nil
    if case .done = reply { book.record(.hop, rig.arrivedAt - ping.due) }
  }
}
