import CallCore
import Glibc

extension Span {
  init(seconds: Double) { self.init(microseconds: Int64(seconds * 1_000_000)) }
  var seconds: Double { Double(microseconds) / 1_000_000 }
}

extension Timestamp {
  static let zero = Self(microseconds: 0)

  static var wallClock: Timestamp {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Timestamp(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
  }

  /// `span` later; the far future stays the far future.
  func later(by span: Span) -> Timestamp { self == .distantFuture ? self : self + span }
}

struct LatencyBook {
  private(set) var histograms: [LatencyPhase: LatencyHistogram] = [:]
  /// Ring latencies since the last read, for the live display.
  private var recentRings = LatencyHistogram()

  mutating func record(_ phase: LatencyPhase, _ span: Span) {
    histograms[phase, default: LatencyHistogram()].record(span)
    if phase == .ring { recentRings.record(span) }
  }

  /// The 99th percentile of ring since the last call of this method.
  mutating func drainRecentRingP99() -> UInt64? {
    defer { recentRings = LatencyHistogram() }
    return Percentiles(recentRings)?.p99
  }
}
