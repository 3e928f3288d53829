/// What the display shows at one moment.
package struct LiveStatus: Sendable, Equatable {
  /// "connecting", "calling", "stopping the cluster".
  package var phase = ""
  package var done = 0
  package var total = 0
  /// What `done` and `total` count: "devices", "calls".
  package var unit = ""
  package var elapsedSeconds: Double = 0
  package var rate: Double = 0
  package var callsLive = 0
  package var errors = 0
  package var violations = 0
  /// Microseconds.
  package var ringP99: UInt64?
  package init() {}
}

/// The display's text. Pure.
package enum LiveFrame {
  /// Two lines for a terminal, each at most `width` wide.
  package static func lines(_ status: LiveStatus, width: Int, style: TextStyle) -> [String] {
    let phase = status.phase.padded(to: 13)
    guard status.total > 0 else {
      return [cut("\(phase)\(Units.duration(seconds: status.elapsedSeconds.rounded()))", width)]
    }
    let fraction = min(max(Double(status.done) / Double(status.total), 0), 1)
    let percent = Units.fixed((fraction * 100).rounded(.down), 0)
    let progress =
      " \(String(repeating: " ", count: max(3 - percent.count, 0)))\(percent) %  "
      + "\(Units.count(status.done))/\(Units.count(status.total)) \(status.unit)"
    let barWidth = min(width - phase.count - progress.count - 2, 40)
    let bar = barWidth < 4 ? "" : bar(fraction, width: barWidth)
    let first = cut(phase + bar + progress, width)
    let second = cut(String(repeating: " ", count: 13) + numbers(status), width)
    let isBad = status.errors > 0 || status.violations > 0
    return [style.bold(first), isBad ? style.bad(second) : second]
  }

  /// One line for a log: no cursor movements, no colours.
  package static func plainLine(_ status: LiveStatus) -> String {
    let seconds = "\(Units.fixed(status.elapsedSeconds, 0)) s"
    guard status.total > 0 else { return "[\(seconds)] \(status.phase)" }
    return "[\(seconds)] \(status.phase): "
      + "\(Units.count(status.done))/\(Units.count(status.total)) \(status.unit), \(numbers(status))"
  }

  private static func numbers(_ status: LiveStatus) -> String {
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
