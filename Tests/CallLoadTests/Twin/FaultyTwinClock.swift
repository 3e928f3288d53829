import CallClient
import CallCore

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

  /// Lets time pass until `done`, or until `limit` has passed or nothing is left to happen.
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
