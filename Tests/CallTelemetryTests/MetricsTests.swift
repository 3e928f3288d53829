import CallTelemetry
import Testing

@Suite struct LatencyHistogramTests {
  @Test func everyValueIsWithinItsBucket() {
    for value in (1...5000).map(UInt64.init) + [65_535, 65_536, 65_537, 1 << 32] {
      let index = LatencyHistogram.bucket(of: value)
      #expect(Int64(value) <= LatencyHistogram.upperBound(index))
      if index > 0, value > 2 {
        // The bucket below that is in use ends before the value.
        let below = LatencyHistogram.bucket(of: value - 1)
        if below != index { #expect(LatencyHistogram.upperBound(below) == Int64(value) - 1) }
      }
    }
  }

  @Test func boundsRiseAndOverstateByAQuarterAtMost() {
    for value in stride(from: UInt64(3), to: 1 << 24, by: 997) {
      let bound = LatencyHistogram.upperBound(LatencyHistogram.bucket(of: value))
      #expect(Double(bound) <= Double(value) * 1.25 + 1)
    }
  }

  @Test func wholePowersOfTwoAreBounds() {
    for exponent in 2..<30 {
      let power = UInt64(1) << UInt64(exponent)
      #expect(LatencyHistogram.upperBound(LatencyHistogram.bucket(of: power)) == Int64(power))
    }
  }

  @Test func hugeValuesAndNegativeOnesAreKept() {
    let histogram = LatencyHistogram()
    histogram.record(microseconds: .max)
    histogram.record(microseconds: -5)
    #expect(histogram.count == 2)
    #expect(histogram.percentile(0.5) == 2)
    #expect(
      histogram.percentile(1) == LatencyHistogram.upperBound(LatencyHistogram.bucketCount - 1))
  }

  @Test func percentiles() {
    let histogram = LatencyHistogram()
    #expect(histogram.percentile(0.99) == 0)
    for _ in 0..<99 { histogram.record(microseconds: 100) }
    histogram.record(microseconds: 10_000)
    #expect(histogram.percentile(0) == 112)
    #expect(histogram.percentile(0.5) == 112)
    #expect(histogram.percentile(0.99) == 112)
    #expect(histogram.percentile(0.999) == 10_240)
    #expect(histogram.sumMicroseconds == 19_900)
    #expect(
      LatencySummary(histogram) == .init(count: 100, p50: 112, p90: 112, p99: 112, max: 10_240))
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
