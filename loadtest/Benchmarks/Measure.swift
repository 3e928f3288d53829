/// Runs a body many times and prints what one run costs.
///
/// The machine may be shared and noisy, so each benchmark takes several samples; the least is what
/// the code costs, the median what it cost today. Compare two builds by running them in turns.
struct Measure {
  var filter: String
  var samples = 9

  private static func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
  }

  private static func nanoseconds(_ duration: Duration) -> Double {
    let parts = duration.components
    return Double(parts.seconds) * 1e9 + Double(parts.attoseconds) / 1e9
  }

  func header() {
    print(Self.padded("benchmark", 58) + "least ns   median ns   per")
  }

  /// - Parameter runs: how often the body runs per sample; the figures are per run.
  func callAsFunction(_ name: String, per: String = "run", runs: Int, _ body: (Int) throws -> Void)
    rethrows
  {
    guard filter.isEmpty || name.contains(filter) else { return }
    var figures: [Double] = []
    for sample in 0...samples {
      let start = ContinuousClock.now
      for run in 0..<runs { try body(run) }
      let figure = Self.nanoseconds(ContinuousClock.now - start) / Double(runs)
      if sample > 0 { figures.append(figure) }  // The first one warms up.
    }
    report(name, figures, per)
  }

  func report(_ name: String, _ figures: [Double], _ per: String) {
    let sorted = figures.sorted()
    guard let least = sorted.first else { return }
    let median = sorted[sorted.count / 2]
    func column(_ value: Double) -> String {
      let text = String(Int(value.rounded()))
      return String(repeating: " ", count: max(0, 8 - text.count)) + text
    }
    print(Self.padded(name, 58) + column(least) + "    " + column(median) + "   " + per)
  }

  func wants(_ name: String) -> Bool { filter.isEmpty || name.contains(filter) }
}

/// Keeps the optimiser from removing what is measured.
@inline(never) func blackHole<T>(_ value: T) {}
