internal import CallCore

/// The time of a device, and one who wakes it.
package protocol DeviceClock: Sendable {
  /// A clock that never goes back, and goes on while the machine sleeps.
  var now: Timestamp { get }
  /// Runs `action` at the given time or soon after, from any thread, and never from within this call.
  func wake(at time: Timestamp, _ action: @escaping @Sendable () -> Void)
}

/// The machine's own clock.
struct SystemClock: DeviceClock {
  private let origin = ContinuousClock.now

  /// Counted from the clock's making; no time of a device is compared with another one's.
  var now: Timestamp {
    Timestamp(microseconds: 1_000_000) + Span(origin.duration(to: .now))
  }

  func wake(at time: Timestamp, _ action: @escaping @Sendable () -> Void) {
    let wait = max(.zero, (time - now).duration)
    // Ends by itself: an action for a device that is gone does nothing.
    Task {
      try? await Task.sleep(for: wait, clock: .continuous)
      action()
    }
  }
}
