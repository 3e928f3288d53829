import CallTelemetry
import Testing

@Suite struct DurationHistogramTests {
  @Test func everyValueIsWithinItsBucket() {
    for value in (1...5000).map(UInt64.init) + [65_535, 65_536, 65_537, 1 << 32] {
      let index = DurationHistogram.bucket(of: value)
      #expect(Int64(value) <= DurationHistogram.upperBound(index))
      if index > 0, value > 2 {
        // The bucket below that is in use ends before the value.
        let below = DurationHistogram.bucket(of: value - 1)
        if below != index { #expect(DurationHistogram.upperBound(below) == Int64(value) - 1) }
      }
    }
  }

  @Test func boundsRiseAndOverstateByASixteenthAtMost() {
    for value in stride(from: UInt64(3), to: 1 << 24, by: 997) {
      let bound = DurationHistogram.upperBound(DurationHistogram.bucket(of: value))
      #expect(Double(bound) <= Double(value) * 1.0625 + 1)
    }
    var former: Int64 = 0
    for index in 6 * 16..<DurationHistogram.bucketCount {
      let bound = DurationHistogram.upperBound(index)
      #expect(bound > former)
      former = bound
    }
  }

  @Test func wholePowersOfTwoAreBounds() {
    for exponent in 2..<30 {
      let power = UInt64(1) << UInt64(exponent)
      #expect(DurationHistogram.upperBound(DurationHistogram.bucket(of: power)) == Int64(power))
    }
  }

  @Test func hugeValuesAndNegativeOnesAreKept() {
    let histogram = DurationHistogram()
    histogram.record(microseconds: .max)
    histogram.record(microseconds: -5)
    #expect(histogram.count == 2)
    #expect(histogram.percentile(0.5) == 2)
    #expect(
      histogram.percentile(1) == DurationHistogram.upperBound(DurationHistogram.bucketCount - 1))
  }

  @Test func percentiles() {
    let histogram = DurationHistogram()
    #expect(histogram.percentile(0.99) == 0)
    for _ in 0..<99 { histogram.record(microseconds: 100) }
    histogram.record(microseconds: 10_000)
    #expect(histogram.percentile(0) == 100)
    #expect(histogram.percentile(0.5) == 100)
    #expect(histogram.percentile(0.99) == 100)
    #expect(histogram.percentile(0.999) == 10_240)
    #expect(histogram.sumMicroseconds == 19_900)
    #expect(
      LatencySummary(histogram) == .init(count: 100, p50: 100, p90: 100, p99: 100, max: 10_240))
  }
}

@Suite struct MetricsRegistryTests {
  @Test func rendersEachKind() {
    let registry = MetricsRegistry()
    registry.counter("b_total", "Bees.", labels: [("kind", "a \"b\"\n")]).increment(by: 3)
    registry.counter("b_total", "Bees.", labels: [("kind", "c")]).increment()
    registry.gauge("a", "A gauge.").set(-2)
    registry.reading("c", "Read.") { 1.5 }
    registry.reading("d", "Read.") { .nan }
    #expect(
      registry.render() == """
        # HELP a A gauge.
        # TYPE a gauge
        a -2
        # HELP b_total Bees.
        # TYPE b_total counter
        b_total{kind="a \\"b\\"\\n"} 3
        b_total{kind="c"} 1
        # HELP c Read.
        # TYPE c gauge
        c 1.5
        # HELP d Read.
        # TYPE d gauge
        d NaN

        """)
  }

  @Test func aSeriesAskedForTwiceIsOne() {
    let registry = MetricsRegistry()
    registry.counter("x_total", "X.").increment()
    registry.counter("x_total", "X.").increment()
    #expect(registry.counter("x_total", "X.").value == 2)
    #expect(registry.render().split(separator: "\n").count == 3)
  }

  /// A value that Prometheus computes from the bounds is as exact as the bounds are narrow.
  @Test func fineBoundsAreAnEighthWide() {
    let registry = MetricsRegistry()
    let histogram = registry.histogram("h_seconds", "H.", bounds: .fineLatencies)
    for value in stride(from: Int64(70), to: 5000, by: 7) { histogram.record(microseconds: value) }
    let bounds = registry.render().split(separator: "\n").compactMap { line -> (Double, Int)? in
      guard line.hasPrefix("h_seconds_bucket"), !line.contains("+Inf") else { return nil }
      let parts = line.split(separator: "\"")
      guard parts.count == 3, let bound = Double(parts[1]) else { return nil }
      return (bound, Int(parts[2].dropFirst(2)) ?? -1)
    }
    #expect(bounds.first?.0 == 64e-6)
    #expect(bounds.last?.0 == 4.194304)
    #expect(bounds.last?.1 == Int(histogram.count))
    for (low, high) in zip(bounds, bounds.dropFirst()) {
      #expect(high.0 / low.0 <= 1.1251 && high.0 > low.0 && high.1 >= low.1)
    }
  }

  @Test func aNewRegistryOfAProcessNamesItsBuildAndStart() throws {
    let registry = MetricsRegistry()
    ProcessSample.register(in: registry)
    let lines = registry.render().split(separator: "\n").map(String.init)
    #expect(lines.contains("callmesh_build_info{version=\"\(CallmeshVersion.current)\"} 1"))
    func value(_ name: String) throws -> Double {
      let line = try #require(lines.first { $0.hasPrefix(name + " ") })
      return try #require(Double(line.dropFirst(name.count + 1)))
    }
    let start = try value("process_start_time_seconds")
    #expect(start > 1_600_000_000)
    #expect(start <= Double(CalendarTime.nowMilliseconds()) / 1000)
  }

  @Test func histogramsAreCumulativeInSeconds() throws {
    let registry = MetricsRegistry()
    let histogram = registry.histogram("h_seconds", "H.")
    histogram.record(microseconds: 64)
    histogram.record(microseconds: 65)
    let lines = registry.render().split(separator: "\n").map(String.init)
    #expect(lines[1] == "# TYPE h_seconds histogram")
    #expect(lines[2] == #"h_seconds_bucket{le="6.4e-05"} 1"#)
    #expect(lines[3] == #"h_seconds_bucket{le="0.000128"} 2"#)
    #expect(lines.suffix(3).first == #"h_seconds_bucket{le="+Inf"} 2"#)
    #expect(lines.suffix(2).last == "h_seconds_count 2")
    #expect(lines.suffix(2).first == "h_seconds_sum 0.000129")
  }
}
