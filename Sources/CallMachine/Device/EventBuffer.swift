internal import Synchronization

/// Events on their way to one reader. Policy at the limit: the oldest unimportant event is dropped, or the
/// oldest one if all are important.
package final class EventBuffer<Element: Sendable>: Sendable {
  private struct State {
    var events: [Element] = []
    var waiter: CheckedContinuation<Element?, Never>?
    var isFinished = false
    var dropped = 0
  }

  private let capacity: Int
  private let isImportant: @Sendable (Element) -> Bool
  private let state = Mutex(State())

  package init(
    capacity: Int, isImportant: @escaping @Sendable (Element) -> Bool = { _ in false }
  ) {
    self.capacity = max(1, capacity)
    self.isImportant = isImportant
  }

  /// Events that were dropped because they were not read in time.
  package var dropped: Int { state.withLock { $0.dropped } }

  package func append(_ event: Element) {
    let waiter = state.withLock { state -> CheckedContinuation<Element?, Never>? in
      if let waiter = state.waiter.take() { return waiter }
      if state.events.count >= capacity {
        state.events.remove(at: state.events.firstIndex { !isImportant($0) } ?? 0)
        state.dropped += 1
      }
      state.events.append(event)
      return nil
    }
    waiter?.resume(returning: event)
  }

  /// Ends the sequence behind the events that wait.
  package func finish() {
    let waiter = state.withLock {
      $0.isFinished = true
      return $0.waiter.take()
    }
    waiter?.resume(returning: nil)
  }

  /// The next event; nil: the sequence has ended, the task was cancelled, or another reader waits.
  package func next() async -> Element? {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let now: Element?? = state.withLock { state in
          if !state.events.isEmpty { return .some(state.events.removeFirst()) }
          // A second reader gets the end: it would otherwise leave the first waiting for ever.
          if state.isFinished || state.waiter != nil || Task.isCancelled { return .some(nil) }
          state.waiter = continuation
          return nil
        }
        if let now { continuation.resume(returning: now) }
      }
    } onCancel: {
      state.withLock { $0.waiter.take() }?.resume(returning: nil)
    }
  }
}
