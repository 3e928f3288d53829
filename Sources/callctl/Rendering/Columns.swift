internal import CallTelemetry

/// A table in plain text.
enum Columns {
  /// Makes text from devices safe for a terminal.
  /// - Parameter right: the columns that are aligned to the right.
  static func render(_ rows: [[String]], right: ClosedRange<Int>...) -> [String] {
    TextColumns.lines(rows.map { $0.map(Figures.safe) }) { column in
      right.contains { $0.contains(column) }
    }
  }
}

/// Figures as people read them.
enum Figures {
  static func latency(microseconds: Int64) -> String {
    switch microseconds {
    case ..<1000: "\(microseconds) µs"
    case ..<100_000: "\(decimal(Double(microseconds) / 1000)) ms"
    case ..<1_000_000: "\(microseconds / 1000) ms"
    default: "\(decimal(Double(microseconds) / 1e6)) s"
    }
  }

  static func bytes(_ count: UInt64) -> String {
    var value = Double(count)
    var unit = 0
    while value >= 1000, unit < 4 {
      value /= 1000
      unit += 1
    }
    let names = ["B", "kB", "MB", "GB", "TB"]
    return unit == 0
      ? "\(count) B" : "\(value < 10 ? decimal(value) : "\(Int(value.rounded()))") \(names[unit])"
  }

  static func uptime(seconds: Double) -> String {
    let whole = Int(max(0, min(seconds, 1e9)))
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60)
    if days > 0 { return "\(days)d \(hours)h" }
    if hours > 0 { return "\(hours)h \(minutes)m" }
    if minutes > 0 { return "\(minutes)m \(whole % 60)s" }
    return "\(whole)s"
  }

  static func rate(_ perSecond: Double) -> String {
    switch perSecond {
    case ...0: "0"
    case ..<0.05: "under 0.1"
    case ..<100: decimal(perSecond)
    default: "\(Int(min(perSecond, 1e15).rounded()))"
    }
  }

  /// With one digit behind the point.
  static func decimal(_ value: Double) -> String {
    let tenths = Int(max(-1e15, min(value * 10, 1e15)).rounded())
    return "\(tenths / 10).\(abs(tenths % 10))"
  }

  /// Rounds a figure that a node may have made up: it may be any number.
  static func whole(_ value: Double) -> Int { Int(max(0, min(value.rounded(), 1e15))) }

  /// `1 call`, `2 calls`.
  static func counted(_ count: Int, _ noun: String) -> String {
    "\(count) \(noun)\(count == 1 ? "" : "s")"
  }

  /// Text from devices, made safe for a terminal.
  static func safe(_ text: String) -> String { JSONText.escaped(text, quotes: false) }
}

extension FixedWidthInteger {
  /// Sums of what nodes say stop at the largest number.
  mutating func add(_ more: Self) {
    let (sum, overflows) = addingReportingOverflow(more)
    self = overflows ? (more < 0 ? .min : .max) : sum
  }
}
