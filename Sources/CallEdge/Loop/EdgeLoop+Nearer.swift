internal import CallTelemetry
internal import CallWire

/// Telling devices that another edge is nearer to their calls, because a shard has moved.
extension EdgeLoop {
  /// Devices are told at most 250 times a second on a loop. They spread their moves themselves.
  static let nearerToldPerTick = 25

  /// The edge that is nearer to a shard's users has changed: the loop's ticks tell their devices.
  func nearerChanged(ofShard shard: Int) {
    for case .device(let handler) in endpoints.values
    where handler.userShard == shard && !handler.awaitsNearer
      && handler.session.nearerNotice != nil
    {
      handler.awaitsNearer = true
      nearerWaiting.append(handler.number)
    }
    countNearerWaiting()
  }

  /// Tells some of the devices that wait for it. What holds then is said, however often it has changed.
  func tellNearer() {
    guard !nearerWaiting.isEmpty else { return }
    for _ in 0..<Self.nearerToldPerTick {
      guard let number = nearerWaiting.popLast() else { break }
      guard let handler = device(number) else { continue }
      handler.awaitsNearer = false
      guard let notice = handler.session.nearerNotice else { continue }
      handler.send(.notice(notice))
      metrics.nearerTold.increment()
    }
    countNearerWaiting()
  }

  private func countNearerWaiting() {
    metrics.nearerWaiting.add(Int64(nearerWaiting.count - nearerCounted))
    nearerCounted = nearerWaiting.count
  }
}
