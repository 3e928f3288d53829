import CallBus
import Synchronization

/// Time that passes a millisecond at a time, each when the machine gets round to it. A process that does not run for a
/// while finds no lease expired and no grace over. One for all tests: each would cost a thousand wake-ups per second.
final class SlowTime: Timers {
  static let shared = SlowTime()
  private static let step: Duration = .milliseconds(1)

  private struct State {
    var now = ContinuousClock.now
    var lastSlot = 0
    var actions: [Int: @Sendable () -> Void] = [:]
    var deadlines: [Int: ContinuousClock.Instant] = [:]
  }
  private let state = Mutex(State())

  private init() {
    Task { [weak self] in
      let pause = Inbox<Never>(capacity: 1)
      while let self {
        _ = await pause.next(until: .now + Self.step)
        self.advance()
      }
    }
  }

  var now: ContinuousClock.Instant { state.withLock { $0.now } }

  func register(_ action: @escaping @Sendable () -> Void) -> Int {
    state.withLock { state in
      state.lastSlot += 1
      state.actions[state.lastSlot] = action
      return state.lastSlot
    }
  }

  func arm(_ slot: Int, at deadline: ContinuousClock.Instant) {
    state.withLock { $0.deadlines[slot] = deadline }
  }

  func unregister(_ slot: Int) {
    state.withLock { state in
      state.actions[slot] = nil
      state.deadlines[slot] = nil
    }
  }

  private func advance() {
    let due = state.withLock { state in
      state.now += Self.step
      let due = state.deadlines.filter { $0.value <= state.now }.keys.sorted()
      for slot in due { state.deadlines[slot] = nil }
      return due.compactMap { state.actions[$0] }
    }
    for action in due { action() }
  }
}
