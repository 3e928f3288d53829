/// Durations in buckets, from 1 µs to nine hours, without a lock. Each power of two has 16 buckets of one width. A
/// percentile is the upper bound of its bucket: never below the true value, and at most a sixteenth above it. Unlike
/// callload's `LatencyHistogram`, it is shared by threads, and its buckets are those that Prometheus is shown.
public final class DurationHistogram: Sendable {
  /// Which of the buckets' bounds Prometheus is shown. Fewer bounds are fewer series.
  public struct Bounds: Sendable, Equatable {
    /// The first and the last bound, as powers of two in microseconds.
    var exponents: ClosedRange<Int>
    /// Bounds per power of two: 1, 2, 4, 8 or 16.
    var perPower: Int

    /// 64 µs to 67 s, each twice the one before.
    public static let latencies = Bounds(exponents: 6...26, perPower: 1)
    /// 64 µs to 4 s, each at most an eighth above the one before: for quantiles that are compared with
    /// other measurements.
    public static let fineLatencies = Bounds(exponents: 6...22, perPower: 8)
    /// Half a second to nine hours, each at most half above the one before.
    public static let callDurations = Bounds(exponents: 19...35, perPower: 2)

    /// The indices of the buckets whose upper bounds are shown.
    fileprivate var indices: StrideThrough<Int> {
      let first = exponents.lowerBound * DurationHistogram.perPower - 1
      let last = exponents.upperBound * DurationHistogram.perPower - 1
      return stride(from: first, through: last, by: DurationHistogram.perPower / perPower)
    }
  }

  fileprivate static let perPower = 16
  private static let stepBits = 4
  package static let bucketCount = 35 * perPower
  private let buckets: [Counter] = (0..<bucketCount).map { _ in Counter() }
  private let sum = Counter()
  let bounds: Bounds
  public init(bounds: Bounds = .latencies) { self.bounds = bounds }

  public func record(microseconds: Int64) {
    let value = UInt64(max(1, microseconds))
    buckets[Self.bucket(of: value)].increment()
    sum.increment(by: value)
  }

  public var count: UInt64 { buckets.reduce(0) { $0 + $1.value } }
  public var sumMicroseconds: UInt64 { sum.value }

  /// The upper bound of the bucket that holds the given quantile (0...1); 0 when nothing was
  /// recorded.
  public func percentile(_ quantile: Double) -> Int64 {
    let counts = buckets.map(\.value)
    let total = counts.reduce(0, +)
    guard total > 0 else { return 0 }
    let wanted = UInt64((quantile * Double(total)).rounded(.up))
    var seen: UInt64 = 0
    for (index, count) in counts.enumerated() {
      seen += count
      if seen >= max(1, wanted) { return Self.upperBound(index) }
    }
    return Self.upperBound(Self.bucketCount - 1)
  }

  /// Cumulative counts at the bounds, as Prometheus wants them: (upper bound in µs, count).
  var cumulative: [(upperMicroseconds: Int64, count: UInt64)] {
    var seen: UInt64 = 0
    var next = 0
    return bounds.indices.map { index in
      while next <= index {
        seen += buckets[next].value
        next += 1
      }
      return (Self.upperBound(index), seen)
    }
  }

  /// Buckets are open below and closed above, as Prometheus has them, so that whole powers of two
  /// are bounds: 32 is in the bucket (31, 32], 33 in (32, 34].
  package static func bucket(of value: UInt64) -> Int {
    let below = max(2, value) - 1
    let exponent = 63 - below.leadingZeroBitCount
    let scaled =
      exponent >= stepBits
      ? below >> UInt64(exponent - stepBits) : below << UInt64(stepBits - exponent)
    return min(bucketCount - 1, exponent * perPower + Int(scaled) % perPower)
  }

  /// The greatest value of a bucket.
  package static func upperBound(_ index: Int) -> Int64 {
    let steps = Int64(perPower + 1 + index % perPower) << Int64(index / perPower)
    return (steps + Int64(perPower) - 1) >> Int64(stepBits)
  }
}
