public import CallCore

/// The time as the core counts it: set from the wall clock once, then advanced by the monotonic clock.
public struct ClusterClock: Sendable {
  private let anchorMicroseconds: Int64
  private let start: ContinuousClock.Instant
  /// The source of this clock's time and wake-ups; nil: the machine's monotonic clock and the process's timers.
  public let timers: (any Timers)?

  /// - Parameters:
  ///   - wallMicroseconds: the wall clock's reading now, in microseconds since 1970.
  ///   - timers: see the property.
  public init(wallMicroseconds: Int64, timers: (any Timers)? = nil) {
    anchorMicroseconds = wallMicroseconds
    self.timers = timers
    start = timers?.now ?? .now
  }

  public func now() -> Timestamp {
    let elapsed = ((timers?.now ?? .now) - start).components
    return Timestamp(
      microseconds: anchorMicroseconds + elapsed.seconds * 1_000_000
        + elapsed.attoseconds / 1_000_000_000_000)
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
