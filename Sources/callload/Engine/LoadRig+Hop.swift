import CallClient
import CallCore
import CallWire

/// What a ring takes, and the part of it that is sockets: an edge measures a ring from the arrival of
/// the place to the writing of the last invite, a device also the way there and back.
extension LoadRig {
  /// One device in turn is pinged so often, on the loop that also sends and reads everything else.
  static let pingPause: Span = .milliseconds(50)

  func schedulePing(at due: Timestamp) {
    guard let stage else { return }
    loop.schedule(at: due) { [weak self, weak stage] in
      guard let self, let stage, self.stage === stage, !stage.arrivalsDone else { return }
      ping(due: due)
      schedulePing(at: due + Self.pingPause)
    }
  }

  private func ping(due: Timestamp) {
    for _ in 0..<8 {
      guard let device = devices.randomElement(using: &pingRandom) else { return }
      guard device.ping == nil, device.isAttached, !device.driver.machine.isMoving,
        !device.driver.isSuspended, !device.isAsleep
      else { continue }
      if let request = say(.ping, device) { device.ping = (request, due) }
      return
    }
  }

  func pingReplied(_ device: LoadDevice, _ request: UInt64, _ reply: ServerReply) {
    guard let ping = device.ping, ping.request == request else { return }
    device.ping = nil
    if case .done = reply { stage?.book.record(.hop, arrivedAt - ping.due) }
  }

  /// The last of a call's awake devices has the invite.
  func rang(_ plan: CallPlan, at now: Timestamp) {
    guard let stage else { return }
    stage.book.record(.ring, now - plan.placeAt)
    guard options.keepsRings else { return }
    stage.rings.append(
      RingSample(
        dueSeconds: Double((plan.placeAt - stage.startedAt).microseconds) / 1e6,
        microseconds: UInt64(max(1, (now - plan.placeAt).microseconds))))
  }
}
