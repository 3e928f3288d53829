internal import Synchronization

/// The names of events that no `wait` has taken yet. An event that came before the `wait` counts as well, so that a
/// script cannot be too late.
final class EventLog: Sendable {
  private struct State {
    var names: [String] = []
    var waiter: (number: Int, name: String, continuation: CheckedContinuation<Bool, Never>)?
    var waits = 0
  }

  /// Policy at the limit: the oldest is forgotten.
  private static let namesMax = 1000
  private let state = Mutex(State())

  func note(_ name: String) {
    let waiter = state.withLock { state -> CheckedContinuation<Bool, Never>? in
      if let waiter = state.waiter, waiter.name == name {
        state.waiter = nil
        state.names.removeAll()
        return waiter.continuation
      }
      if state.names.count == Self.namesMax { state.names.removeFirst() }
      state.names.append(name)
      return nil
    }
    waiter?.resume(returning: true)
  }

  /// Takes the event and those before it.
  /// - Returns: whether it came within the given time, and before the task was cancelled.
  func wait(for name: String, atMost time: Duration) async -> Bool {
    await withTaskCancellationHandler {
      await begin(name, atMost: time)
    } onCancel: {
      state.withLock { $0.waiter.take() }?.continuation.resume(returning: false)
    }
  }

  private func begin(_ name: String, atMost time: Duration) async -> Bool {
    await withCheckedContinuation { continuation in
      let (answer, number) = state.withLock { state -> (Bool?, Int) in
        if Task.isCancelled { return (false, 0) }
        if let index = state.names.firstIndex(of: name) {
          state.names.removeFirst(index + 1)
          return (true, 0)
        }
        state.waits += 1
        state.waiter = (state.waits, name, continuation)
        return (nil, state.waits)
      }
      if let answer { return continuation.resume(returning: answer) }
      // Ends by itself; a wait that is over is no longer found.
      Task {
        try? await Task.sleep(for: time)
        self.expire(number)
      }
    }
  }

  private func expire(_ number: Int) {
    let waiter = state.withLock { state -> CheckedContinuation<Bool, Never>? in
      guard let waiter = state.waiter, waiter.number == number else { return nil }
      state.waiter = nil
      return waiter.continuation
    }
    waiter?.resume(returning: false)
  }
}
