public import CallCore

/// The time as the core counts it: anchored to the wall clock once, advanced by the monotonic clock.
public struct ClusterClock: Sendable {
  private let anchorMicroseconds: Int64
  private let start: ContinuousClock.Instant

  /// - Parameter wallMicroseconds: the wall clock's reading now, in microseconds since 1970.
  public init(wallMicroseconds: Int64) {
    anchorMicroseconds = wallMicroseconds
    start = .now
  }

  public func now() -> Timestamp {
    let elapsed = (ContinuousClock.now - start).components
    return Timestamp(
      microseconds: anchorMicroseconds + elapsed.seconds * 1_000_000
        + elapsed.attoseconds / 1_000_000_000_000)
  }

  /// The instant of the monotonic clock at which `now()` reads `time`.
  public func instant(at time: Timestamp) -> ContinuousClock.Instant {
    start + .microseconds(time.microseconds - anchorMicroseconds)
  }
}
