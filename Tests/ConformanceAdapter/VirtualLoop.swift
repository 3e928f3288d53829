import CallClient
import CallCore

/// Time that passes only when the suite says so.
final class VirtualLoop: DeviceLoop {
  private(set) var now = Timestamp(microseconds: 1_000_000_000)
  private var timers: [(at: Timestamp, action: () -> Void)] = []

  func schedule(at time: Timestamp, _ action: @escaping () -> Void) {
    timers.append((time, action))
  }

  /// Runs what is due within the span, in order.
  func advance(by span: Span) {
    let end = now + span
    while let first = timers.indices.min(by: { timers[$0].at < timers[$1].at }),
      timers[first].at <= end
    {
      let timer = timers.remove(at: first)
      now = max(now, timer.at)
      timer.action()
    }
    now = end
  }
}
