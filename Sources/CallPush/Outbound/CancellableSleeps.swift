package import CallBus
package import CallCore
internal import Synchronization

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

  /// Returns after the span, on `close`, or when the task is cancelled.
  package func sleep(for span: Span) async {
    let inbox = Inbox<Never>(capacity: 1, timers: clock.timers)
    let number = state.withLock { state -> UInt64? in
      guard !state.closed else { return nil }
      state.nextNumber += 1
      state.waiting[state.nextNumber] = inbox
      return state.nextNumber
    }
    guard let number else { return }
    _ = await inbox.next(until: clock.instant(at: clock.now() + span))
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
