public import CallCore

/// Retries an operation of the store, with exponential backoff, while its errors are transient.
///
/// The store may be unavailable when a node starts: servers start at the same time, a replicated store elects a
/// leader, streams take seconds to create.
public struct StoreRetryPolicy: Sendable {
  /// The time after which a transient error is thrown instead of retried.
  private let limit: Span
  /// The pause before the first retry; it doubles with each, up to `longestPause`.
  private let pause: Span
  private let longestPause: Span
  private let clock: ClusterClock
  private let onRetry: @Sendable (BusError) -> Void

  /// - Parameter onRetry: is given the error before each pause.
  public init(
    clock: ClusterClock, limit: Span = .seconds(60), pause: Span = .milliseconds(500),
    longestPause: Span? = nil, onRetry: @escaping @Sendable (BusError) -> Void
  ) {
    self.clock = clock
    self.limit = limit
    self.pause = pause
    self.longestPause = max(pause, longestPause ?? pause)
    self.onRetry = onRetry
  }

  /// - Throws: what `body` throws, if that is not transient, the limit has passed, or the task is cancelled.
  public func callAsFunction<Value>(_ body: () async throws -> Value) async throws -> Value {
    let end = clock.now() + limit
    var pause = pause
    while true {
      do {
        return try await body()
      } catch let error as BusError where error.isTransient {
        guard clock.now() < end, !Task.isCancelled else { throw error }
        onRetry(error)
      }
      await clock.sleep(for: pause)
      pause = min(longestPause, Span(microseconds: pause.microseconds * 2))
    }
  }
}

extension BusError {
  /// Whether the same operation may succeed later, without anyone's intervention.
  public var isTransient: Bool {
    switch self {
    case .timeout, .noResponders, .notReady: true
    case .closed, .wrongSequence, .failed: false
    }
  }
}
