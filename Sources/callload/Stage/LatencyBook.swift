import CallCore
import Histogram

/// The histograms of a run, in microseconds, three significant digits, up to five minutes.
struct LatencyBook {
  private(set) var histograms: [LatencyPhase: Histogram<UInt32>] = [:]
  /// Rings since the last look, for the live display. Bounded: what is beyond is left out.
  private var recentRings: [UInt64] = []

  static let highest: UInt64 = 300_000_000
  static let recentMax = 4096

  static func histogram() -> Histogram<UInt32> {
    Histogram(
      lowestDiscernibleValue: 1, highestTrackableValue: highest,
      numberOfSignificantValueDigits: .three)
  }

  mutating func record(_ phase: LatencyPhase, _ span: Span) {
    let value = min(Self.highest, UInt64(max(1, span.microseconds)))
    _ = histograms[phase, default: Self.histogram()].record(value)
    if phase == .ring, recentRings.count < Self.recentMax { recentRings.append(value) }
  }

  /// The 99th percentile of ring since the last call of this.
  mutating func takeRecentRingP99() -> UInt64? {
    guard !recentRings.isEmpty else { return nil }
    recentRings.sort()
    let value = recentRings[min(recentRings.count - 1, recentRings.count * 99 / 100)]
    recentRings.removeAll(keepingCapacity: true)
    return value
  }
}
