import Histogram

extension RunReport {
  /// The percentile distributions of all phases in HdrHistogram's text form, in milliseconds, each
  /// behind a line that names its phase, for HdrHistogram's plotter and similar tools.
  package func percentileDistributions() -> String {
    var text = ""
    for phase in LatencyPhase.allCases {
      guard let histogram = result.latency[phase], histogram.totalCount > 0 else { continue }
      text += "# phase \(phase.rawValue), milliseconds\n"
      histogram.outputPercentileDistribution(
        to: &text, outputValueUnitScalingRatio: 1_000, percentileTicksPerHalfDistance: 5)
      text += "\n"
    }
    return text
  }
}
