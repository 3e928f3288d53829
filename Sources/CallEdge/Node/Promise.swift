internal import Synchronization

/// A value that is set once, and awaited by any number of tasks.
final class Promise<Value: Sendable>: Sendable {
  private enum State {
    case waiting([UInt64: CheckedContinuation<Value, any Error>], last: UInt64)
    case done(Result<Value, any Error>)
  }
  private let state = Mutex(State.waiting([:], last: 0))

  /// Sets the value. Only the first call has an effect.
  func complete(_ result: Result<Value, any Error>) {
    let waiting = state.withLock { state -> [CheckedContinuation<Value, any Error>] in
      guard case .waiting(let waiting, _) = state else { return [] }
      state = .done(result)
      return Array(waiting.values)
    }
    for continuation in waiting { continuation.resume(with: result) }
  }

  /// Waits for the value.
  /// - Throws: the error that was set in its place; `CancellationError` when the task is cancelled first.
  func value() async throws -> Value {
    let id = state.withLock { state -> UInt64 in
      guard case .waiting(let waiting, let last) = state else { return 0 }
      state = .waiting(waiting, last: last + 1)
      return last + 1
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { wait($0, id: id) }
    } onCancel: {
      cancel(id)
    }
  }

  private func wait(_ continuation: CheckedContinuation<Value, any Error>, id: UInt64) {
    let result = state.withLock { state -> Result<Value, any Error>? in
      switch state {
      case .done(let result): return result
      case .waiting(var waiting, let last):
        if Task.isCancelled { return .failure(CancellationError()) }
        waiting[id] = continuation
        state = .waiting(waiting, last: last)
        return nil
      }
    }
    if let result { continuation.resume(with: result) }
  }

  private func cancel(_ id: UInt64) {
    let continuation = state.withLock { state -> CheckedContinuation<Value, any Error>? in
      guard case .waiting(var waiting, let last) = state else { return nil }
      let found = waiting.removeValue(forKey: id)
      state = .waiting(waiting, last: last)
      return found
    }
    continuation?.resume(throwing: CancellationError())
  }
}
