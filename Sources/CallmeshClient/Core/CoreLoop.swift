internal import CallCore
internal import CallMachine

/// The loop that a device's driver lives on: the thread that holds the device's lock runs it.
final class CoreLoop: DeviceLoop {
  private let clock: any DeviceClock
  /// Few: a driver arms one timer at a time.
  private var timers: [(at: Timestamp, action: () -> Void)] = []

  init(_ clock: any DeviceClock) { self.clock = clock }

  var now: Timestamp { clock.now }

  /// When `runDue` has something to do; nil: nothing is scheduled.
  var nextTimer: Timestamp? { timers.map(\.at).min() }

  func schedule(at time: Timestamp, _ action: @escaping () -> Void) {
    timers.append((time, action))
  }

  func runDue() {
    let now = now
    let due = timers.filter { $0.at <= now }
    timers.removeAll { $0.at <= now }
    for timer in due { timer.action() }
  }
}
