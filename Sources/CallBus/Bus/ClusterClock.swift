public import CallCore

/// Retries an operation of the store, with exponential backoff, while its errors are transient.
///
/// The store may be unavailable when a node starts: servers start at the same time, a replicated store elects a leader,
/// streams take seconds to create.
public struct StoreRetryPolicy: Sendable {
  /// The time after which a transient error is thrown instead of retried.
  private let limit: Span
  private let backoff: Backoff
  private let clock: ClusterClock
  private let onRetry: @Sendable (BusError) -> Void

  /// - Parameters:
  ///   - pause: before the first retry.
  ///   - longestPause: nil: all pauses have the length of the first.
  ///   - onRetry: is given the error before each pause.
  public init(
    clock: ClusterClock, limit: Span = .seconds(60), pause: Span = .milliseconds(500),
    longestPause: Span? = nil, onRetry: @escaping @Sendable (BusError) -> Void
  ) {
    self.clock = clock
    self.limit = limit
    backoff = Backoff(pause, to: max(pause, longestPause ?? pause))
    self.onRetry = onRetry
  }

  /// - Throws: what `body` throws, if that is not transient, the limit has passed, or the task is cancelled.
  public func callAsFunction<Value>(_ body: () async throws -> Value) async throws -> Value {
    let end = clock.now() + limit
    var pauses = 0
    while true {
      do {
        return try await body()
      } catch let error as BusError where error.isTransient {
        guard clock.now() < end, !Task.isCancelled else { throw error }
        onRetry(error)
      }
      await clock.sleep(for: backoff.pause(after: pauses))
      pauses += 1
    }
  }
}

/// The time as the core counts it: set from the wall clock once, then advanced by the monotonic clock.
public struct ClusterClock: Sendable {
  private let anchorMicroseconds: Int64
  private let start: ContinuousClock.Instant
  private let startMicroseconds: Int64
  /// The source of this clock's time and wake-ups; nil: the machine's monotonic clock and the process's timers.
  public let timers: (any Timers)?

  /// - Parameters:
  ///   - wallMicroseconds: the wall clock's reading now, in microseconds since 1970.
  ///   - timers: see the property.
  public init(wallMicroseconds: Int64, timers: (any Timers)? = nil) {
    anchorMicroseconds = wallMicroseconds
    self.timers = timers
    // In this order: a timer must not fire before its time, as `now()` has it.
    startMicroseconds = timers?.microseconds ?? MachineClock.microseconds
    start = timers?.now ?? .now
  }

  public func now() -> Timestamp {
    let elapsed = (timers?.microseconds ?? MachineClock.microseconds) - startMicroseconds
    return Timestamp(microseconds: anchorMicroseconds + elapsed)
  }

  /// The instant of the monotonic clock at which `now()` reads `time`.
  public func instant(at time: Timestamp) -> ContinuousClock.Instant {
    start + .microseconds(time.microseconds - anchorMicroseconds)
  }

  /// Suspends for a time; returns early when the task is cancelled. Allocates: not for hot paths.
  public func sleep(for span: Span) async {
    let nothing = Inbox<Never>(capacity: 1, timers: timers)
    _ = await nothing.next(until: instant(at: now() + span))
  }
}
