extension RunReport {
  /// Percentiles of ring, answer and elsewhere over the time of the load, faults marked; nil without `--plot`.
  package func plot() -> ChartDocument? {
    guard let series = result.series else { return nil }
    let marks = (result.chaos?.courses ?? []).map { course in
      Chart.Mark(
        name: course.kind.rawValue, from: course.atSeconds,
        to: course.liftedSeconds ?? result.loadSeconds)
    }
    let every =
      series.slotSeconds == 1 ? "each second" : "each \(Units.count(series.slotSeconds)) seconds"
    let charts = LatencySeries.phases.compactMap { phase -> Chart? in
      let points = series.points(phase)
      guard !points.isEmpty else { return nil }
      func line(_ name: String, _ figure: KeyPath<Percentiles, UInt64>) -> Chart.Line {
        Chart.Line(
          name: name,
          points: points.map { Chart.Point(x: $0.seconds, y: Double($0.1[keyPath: figure])) })
      }
      var chart = Chart(
        title: "\(phase.rawValue): \(phase.summary)",
        x: Axis("seconds since the first call, by when the act was due", hasZero: true),
        y: Axis("latency", isLogarithmic: true) { Units.time(microseconds: UInt64($0)) },
        lines: [line("p50", \.p50), line("p99", \.p99), line("max", \.max)])
      chart.marks = marks
      return chart
    }
    return ChartDocument(
      title: "Latency in \(every)",
      subtitle: "\(Units.count(settings.devices)) devices, "
        + "\(Units.trimmed(settings.callsPerSecond, 1)) calls/s, scenario \(settings.scenario), "
        + "seed \(settings.seed)" + (settings.chaos.isEmpty ? "" : ", chaos \(settings.chaos)"),
      charts: charts)
  }
}

extension LatencyPhase {
  fileprivate var summary: String {
    switch self {
    case .ring: "from placing until the last device has the invite"
    case .answer: "from the answer until the caller is told"
    case .elsewhere: "from the answer until the last other device is told"
    case .connect, .register, .cancel, .timeout, .hop: ""
    }
  }
}
