package import CallCore
import Histogram

/// Latencies in microseconds, up to five minutes.
///
/// It is encoded as text, each value that was recorded with its count ("370:12 371:9"), so that the histograms of
/// several reports add up exactly.
package struct LatencyHistogram: Sendable {
  package enum Precision: Sendable {
    /// To a thousandth.
    case fine
    /// To a hundredth, in an eighth of the memory.
    case coarse
  }

  static let highestMicroseconds: UInt64 = 300_000_000

  private var counts: Histogram<UInt32>

  package init(_ precision: Precision = .fine) {
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

  /// - Throws: ``SetupError`` where there would be more values than can be counted.
  package mutating func add(_ other: Self) throws {
    guard totalCount + other.totalCount <= UInt64(UInt32.max) else {
      throw SetupError("more than \(Units.count(UInt32.max)) values")
    }
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
  package init(from decoder: any Decoder) throws {
    self.init()
    let container = try decoder.singleValueContainer()
    var total: UInt64 = 0
    for pair in try container.decode(String.self).split(separator: " ") {
      let parts = pair.split(separator: ":", omittingEmptySubsequences: false)
      guard parts.count == 2, let value = UInt64(parts[0]), let count = UInt32(parts[1]) else {
        throw DecodingError.dataCorruptedError(
          in: container, debugDescription: "\"\(pair)\" is no value with its count")
      }
      total += UInt64(count)
      guard total <= UInt64(UInt32.max), counts.record(value, count: count) else {
        throw DecodingError.dataCorruptedError(
          in: container, debugDescription: "\"\(pair)\" is too large")
      }
    }
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(recorded.map { "\($0.value):\($0.count)" }.joined(separator: " "))
  }
}
