package struct LiveStatus: Sendable {
  /// The present step outside of the engine, such as "stopping the cluster"; empty while the engine is at work.
  package var step = ""
  package var elapsedSeconds: Double = 0
  package var load = LoadProgress.Snapshot()
  package init() {}

  package var phase: String { step.isEmpty ? load.phase.rawValue : step }
  /// The total of the phase's count; 0: nothing is counted.
  var total: Int { step.isEmpty ? load.total : 0 }
  var unit: String { [.calling, .settling].contains(load.phase) ? "calls" : "devices" }
}

/// The display's text. Pure.
package enum LiveFrame {
  /// Two lines for a terminal, each at most `width` wide.
  package static func lines(_ status: LiveStatus, width: Int, style: TextStyle) -> [String] {
    let phase = status.phase.padded(to: 13)
    guard status.total > 0 else {
      return [cut("\(phase)\(Units.duration(seconds: status.elapsedSeconds.rounded()))", width)]
    }
    let fraction = min(max(Double(status.load.done) / Double(status.total), 0), 1)
    let percent = Units.fixed((fraction * 100).rounded(.down), 0)
    let progress =
      " \(String(repeating: " ", count: max(3 - percent.count, 0)))\(percent) %  "
      + "\(Units.count(status.load.done))/\(Units.count(status.total)) \(status.unit)"
    let barWidth = min(width - phase.count - progress.count - 2, 40)
    let bar = barWidth < 4 ? "" : bar(fraction, width: barWidth)
    let first = cut(phase + bar + progress, width)
    let second = cut(String(repeating: " ", count: 13) + numbers(status.load), width)
    let isBad = status.load.errors > 0 || status.load.violations > 0
    return [style.bold(first), isBad ? style.bad(second) : second]
  }

  /// One line for a log: no cursor movements, no colours.
  package static func plainLine(_ status: LiveStatus) -> String {
    let seconds = "\(Units.fixed(status.elapsedSeconds, 0)) s"
    guard status.total > 0 else { return "[\(seconds)] \(status.phase)" }
    return "[\(seconds)] \(status.phase): "
      + "\(Units.count(status.load.done))/\(Units.count(status.total)) \(status.unit), \(numbers(status.load))"
  }

  private static func numbers(_ status: LoadProgress.Snapshot) -> String {
    let ring = status.ringP99.map { Units.time(microseconds: $0) } ?? "–"
    return "\(Units.fixed(status.rate, 0))/s, \(Units.count(status.callsLive)) live, "
      + "ring p99 \(ring), \(Units.count(status.errors)) errors, "
      + "\(Units.count(status.violations)) wrong"
  }

  private static func bar(_ fraction: Double, width: Int) -> String {
    let filled = Int((fraction * Double(width)).rounded(.down))
    return "[" + String(repeating: "#", count: filled)
      + String(repeating: "-", count: width - filled) + "]"
  }

  private static func cut(_ text: String, _ width: Int) -> String {
    text.count <= width ? text : String(text.prefix(max(width - 1, 0))) + "…"
  }
}

extension String {
  fileprivate func padded(to width: Int) -> String {
    count >= width ? self + " " : self + String(repeating: " ", count: width - count)
  }
}
