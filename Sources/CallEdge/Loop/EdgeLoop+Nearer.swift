internal import CallTelemetry
internal import CallWire

/// Notifies devices that another edge is nearer to their calls, because a shard has moved.
extension EdgeLoop {
  /// A loop sends at most 250 notices a second. Devices spread their moves themselves.
  static let nearerNoticesPerTick = 25

  /// The edge that is nearer to a shard's users has changed: the loop's ticks notify their devices.
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

  /// Notifies some of the devices that wait for it. Each gets the newest state, however often that has changed.
  func sendNearerNotices() {
    guard !nearerWaiting.isEmpty else { return }
    for _ in 0..<Self.nearerNoticesPerTick {
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
