internal import CallBus
internal import Synchronization

/// Timers on the connection's thread, as the timeout of its wait for events, so that the deadline of an actor on it
/// wakes no other thread. For a few slots only: each turn of the thread checks all of them.
final class BusTimers: Timers {
  private struct Slot {
    var deadline: ContinuousClock.Instant?
    var action: (@Sendable () -> Void)?
  }
  private struct State {
    var slots: [Slot] = []
    /// Whether a deadline was set since the thread last checked them.
    var armedAnew = false
    /// Set when the thread has ended: the slots of the process's timers that serve the remaining ones.
    var successors: [Int]?
  }

  private let state = Mutex(State())
  private let outbox: Outbox

  init(_ outbox: Outbox) { self.outbox = outbox }

  var now: ContinuousClock.Instant { .now }

  func register(_ action: @escaping @Sendable () -> Void) -> Int {
    state.withLock { state in
      state.slots.append(Slot(action: action))
      state.successors?.append(TimerThread.shared.register(action))
      return state.slots.count - 1
    }
  }

  func unregister(_ slot: Int) {
    let successor = state.withLock { state in
      state.slots[slot] = Slot()
      return state.successors?[slot]
    }
    if let successor { TimerThread.shared.unregister(successor) }
  }

  func arm(_ slot: Int, at deadline: ContinuousClock.Instant) {
    let successor = state.withLock { state in
      state.slots[slot].deadline = deadline
      state.armedAnew = true
      return state.successors?[slot]
    }
    if let successor { return TimerThread.shared.arm(successor, at: deadline) }
    // A thread that does not wait now checks its timers before it does.
    outbox.wakeIfAsleep()
  }

  /// Whether deadlines were set that the thread has not checked.
  var areArmedAnew: Bool { state.withLock { $0.armedAnew } }

  /// Runs what is due; returns the next deadline.
  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
    let (due, next) = state.withLock { state in
      state.armedAnew = false
      var due: [@Sendable () -> Void] = []
      var next: ContinuousClock.Instant?
      for index in state.slots.indices {
        guard let deadline = state.slots[index].deadline else { continue }
        if deadline <= now {
          state.slots[index].deadline = nil
          if let action = state.slots[index].action { due.append(action) }
        } else {
          next = min(next ?? deadline, deadline)
        }
      }
      return (due, next)
    }
    guard !due.isEmpty else { return next }
    for action in due { action() }
    // An action may have armed its slot again.
    return expire(now: now)
  }

  /// Called when the thread ends. The process's timers serve those who still wait.
  func end() {
    state.withLock { state in
      state.successors = state.slots.map { slot in
        let successor = TimerThread.shared.register(slot.action ?? {})
        if let deadline = slot.deadline { TimerThread.shared.arm(successor, at: deadline) }
        return successor
      }
    }
  }
}
