package import CallCore
import Histogram

/// Latencies in microseconds, up to five minutes.
///
/// It is encoded as the values that were recorded and how often, so that histograms of several processes
/// add up exactly.
package struct LatencyHistogram: Sendable {
  package enum Precision: String, Codable, Sendable {
    /// To a thousandth.
    case fine
    /// To a hundredth, in an eighth of the memory.
    case coarse
  }

  static let highestMicroseconds: UInt64 = 300_000_000

  private let precision: Precision
  private var counts: Histogram<UInt32>

  package init(_ precision: Precision = .fine) {
    self.precision = precision
    counts = Histogram(
      lowestDiscernibleValue: 1, highestTrackableValue: Self.highestMicroseconds,
      numberOfSignificantValueDigits: precision == .fine ? .three : .two)
  }

  package var totalCount: UInt64 { counts.totalCount }
  package var max: UInt64 { counts.max }
  package var mean: Double { counts.mean }

  package func valueAtPercentile(_ percentile: Double) -> UInt64 {
    counts.valueAtPercentile(percentile)
  }

  package mutating func record(_ span: Span) {
    counts.record(Swift.min(Self.highestMicroseconds, UInt64(Swift.max(1, span.microseconds))))
  }

  package mutating func add(_ other: Self) {
    for (value, count) in other.recorded { counts.record(value, count: count) }
  }

  /// Each value, to the precision, and how often it was recorded. The greatest one is exact.
  private var recorded: some Sequence<(value: UInt64, count: UInt32)> {
    counts.recordedValues().lazy.map { [most = counts.maxRecorded] in
      (Swift.min($0.value, most), $0.count)
    }
  }

  /// Appends the distribution as HdrHistogram's text, in milliseconds.
  func outputPercentileDistribution(to text: inout String) {
    counts.outputPercentileDistribution(
      to: &text, outputValueUnitScalingRatio: 1_000, percentileTicksPerHalfDistance: 5)
  }
}

extension LatencyHistogram: Codable {
  private enum CodingKeys: String, CodingKey { case precision, values }

  package init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    self.init(try container.decode(Precision.self, forKey: .precision))
    let values = try container.decode([UInt32].self, forKey: .values)
    let total = values.indices.reduce(UInt64(0)) { $0 + ($1 % 2 == 1 ? UInt64(values[$1]) : 0) }
    var isSound = values.count % 2 == 0 && total <= UInt64(UInt32.max)
    for index in stride(from: 0, to: values.count - 1, by: 2) where isSound {
      isSound = counts.record(UInt64(values[index]), count: values[index + 1])
    }
    guard isSound else {
      throw DecodingError.dataCorruptedError(
        forKey: .values, in: container, debugDescription: "no values with their counts")
    }
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(precision, forKey: .precision)
    // All values that can be recorded fit 32 bits.
    let values = recorded.flatMap { [UInt32(truncatingIfNeeded: $0.value), $0.count] }
    try container.encode(values, forKey: .values)
  }
}
