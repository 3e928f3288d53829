package import CallCore

/// Latencies of a load over time: one histogram for each phase and interval. Bounded by ``slotsMax`` intervals.
package struct LatencySeries: Sendable {
  package static let phases: [LatencyPhase] = [.ring, .answer, .elsewhere]
  static let slotsMax = 240

  /// The length of an interval, in whole seconds.
  package let slotSeconds: Int
  private let slotCount: Int
  private var slots: [LatencyPhase: [Int: LatencyHistogram]] = [:]

  package init(durationSeconds: Double) {
    slotSeconds = max(1, Int((durationSeconds / Double(Self.slotsMax)).rounded(.up)))
    slotCount = max(1, Int((durationSeconds / Double(slotSeconds)).rounded(.up)))
  }

  /// - Parameter dueSeconds: when the act was due, since the load began. What is due later than the load
  ///   lasts counts for the last interval.
  package mutating func record(_ phase: LatencyPhase, _ span: Span, dueSeconds: Double) {
    guard Self.phases.contains(phase) else { return }
    let slot = min(max(0, Int(dueSeconds) / slotSeconds), slotCount - 1)
    slots[phase, default: [:]][slot, default: LatencyHistogram(.coarse)].record(span)
  }

  /// The intervals in which something was recorded: their middles in seconds, and the percentiles.
  package func points(_ phase: LatencyPhase) -> [(seconds: Double, Percentiles)] {
    (slots[phase] ?? [:]).sorted { $0.key < $1.key }.compactMap { slot, histogram in
      Percentiles(histogram).map { ((Double(slot) + 0.5) * Double(slotSeconds), $0) }
    }
  }
}
