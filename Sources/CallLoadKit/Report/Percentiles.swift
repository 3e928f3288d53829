/// The points of a distribution in reports, in microseconds.
package struct Percentiles: Sendable, Equatable {
  package var count: UInt64
  package var p50: UInt64
  package var p90: UInt64
  package var p99: UInt64
  package var p999: UInt64
  package var max: UInt64
  package var mean: Double

  package init?(_ histogram: LatencyHistogram?) {
    guard let histogram, histogram.totalCount > 0 else { return nil }
    count = histogram.totalCount
    p50 = histogram.valueAtPercentile(50)
    p90 = histogram.valueAtPercentile(90)
    p99 = histogram.valueAtPercentile(99)
    p999 = histogram.valueAtPercentile(99.9)
    max = histogram.max
    mean = histogram.mean
  }

  /// Each point is one of the values. nil without values.
  init?(_ values: [UInt64]) {
    let sorted = values.sorted()
    guard let last = sorted.last else { return nil }
    func at(_ share: Double) -> UInt64 {
      sorted[min(sorted.count - 1, Int((Double(sorted.count) * share).rounded(.up)) - 1)]
    }
    count = UInt64(sorted.count)
    (p50, p90, p99, p999, max) = (at(0.5), at(0.9), at(0.99), at(0.999), last)
    mean = Double(sorted.reduce(0, +)) / Double(sorted.count)
  }

  var json: JSONObject {
    [
      "count": count, "p50": p50, "p90": p90, "p99": p99, "p999": p999, "max": max,
      "mean": mean.toThousandth,
    ]
  }

  var summaryJSON: JSONObject { ["count": count, "p50": p50, "p99": p99, "max": max] }
}

extension TextTable {
  init(distributions title: String) {
    self.init([title, "count", "p50", "p90", "p99", "p99.9", "max"])
  }

  mutating func add(_ title: String, _ found: Percentiles?) {
    guard let found else { return add(title, "0", "–", "–", "–", "–", "–") }
    add(title, found, [found.p50, found.p90, found.p99, found.p999, found.max])
  }

  /// Adds count, median, 99th percentile and maximum; no row where nothing was recorded.
  mutating func addSummary(_ title: String, _ found: Percentiles?) {
    if let found { add(title, found, [found.p50, found.p99, found.max]) }
  }

  private mutating func add(_ title: String, _ found: Percentiles, _ points: [UInt64]) {
    rows.append([title, Units.count(found.count)] + points.map { Units.time(microseconds: $0) })
  }
}
