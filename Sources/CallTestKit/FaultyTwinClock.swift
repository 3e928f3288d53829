import CallClient
package import CallCore

/// Virtual time: a run of minutes takes as long as its work.
package final class VirtualDeviceLoop: DeviceLoop {
  private struct Timer {
    var at: Timestamp
    var number: UInt64
    var action: () -> Void

    func isBefore(_ other: Self) -> Bool { (at, number) < (other.at, other.number) }
  }

  package private(set) var now: Timestamp
  /// A heap, by time and then by the order of scheduling.
  private var timers: [Timer] = []
  private var lastNumber: UInt64 = 0

  package init(now: Timestamp = Timestamp(microseconds: 1_700_000_000_000_000)) { self.now = now }

  package func schedule(at time: Timestamp, _ action: @escaping () -> Void) {
    lastNumber += 1
    timers.append(Timer(at: max(time, now), number: lastNumber, action: action))
    var child = timers.count - 1
    while child > 0, timers[child].isBefore(timers[(child - 1) / 2]) {
      timers.swapAt(child, (child - 1) / 2)
      child = (child - 1) / 2
    }
  }

  /// Lets time pass until `done`, or until `limit` has passed or nothing is left to happen.
  /// - Returns: whether `done` came true.
  package func run(for limit: Span, until done: () -> Bool) -> Bool {
    let end = now + limit
    while !done() {
      guard let first = timers.first, first.at <= end else { return false }
      removeFirst()
      now = first.at
      first.action()
    }
    return true
  }

  private func removeFirst() {
    timers.swapAt(0, timers.count - 1)
    timers.removeLast()
    var parent = 0
    while true {
      var least = parent
      for child in [2 * parent + 1, 2 * parent + 2]
      where child < timers.count && timers[child].isBefore(timers[least]) {
        least = child
      }
      guard least != parent else { return }
      timers.swapAt(parent, least)
      parent = least
    }
  }
}
