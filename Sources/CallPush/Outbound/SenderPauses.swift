package import CallBus
package import CallCore
internal import Synchronization

/// Services that asked for a pause (503 with `Retry-After`), and until when. Notices heed it.
///
/// Policy when there are too many: the pause that ends first is forgotten.
final class ServiceBackoff: Sendable {
  static let servicesMax = 1024
  private let ends = Mutex<[String: Timestamp]>([:])

  func note(_ service: String, until end: Timestamp) {
    ends.withLock { ends in
      ends[service] = max(end, ends[service] ?? end)
      guard ends.count > Self.servicesMax, let first = ends.min(by: { $0.value < $1.value })
      else { return }
      ends[first.key] = nil
    }
  }

  /// nil when it asked for none, or the pause is over.
  func end(of service: String, now: Timestamp) -> Timestamp? {
    ends.withLock { ends in
      guard let end = ends[service] else { return nil }
      if end > now { return end }
      ends[service] = nil
      return nil
    }
  }
}

/// Sleeps that end early when their owner closes.
package final class CancellableSleeps: Sendable {
  private struct State {
    var waiting: [UInt64: Inbox<Never>] = [:]
    var nextNumber: UInt64 = 0
    var closed = false
  }
  private let clock: ClusterClock
  private let state = Mutex(State())

  package init(clock: ClusterClock) { self.clock = clock }

  /// Returns after the span, on `close`, or when the task or the push is cancelled.
  package func sleep(for span: Span, unless cancellation: PushCancellation? = nil) async {
    let inbox = Inbox<Never>(capacity: 1, timers: clock.timers)
    let number = state.withLock { state -> UInt64? in
      guard !state.closed else { return nil }
      state.nextNumber += 1
      state.waiting[state.nextNumber] = inbox
      return state.nextNumber
    }
    guard let number else { return }
    cancellation?.onCancel { inbox.close() }
    _ = await inbox.next(until: clock.instant(at: clock.now() + span))
    cancellation?.onCancel(nil)
    state.withLock { $0.waiting[number] = nil }
  }

  package func close() {
    let waiting = state.withLock { state in
      state.closed = true
      return Array(state.waiting.values)
    }
    for inbox in waiting { inbox.close() }
  }

  package var count: Int { state.withLock { $0.waiting.count } }
}
