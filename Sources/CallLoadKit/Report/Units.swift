/// Numbers as people read them. Pure, and without locale, so that a report looks the same anywhere.
package enum Units {
  /// A latency: "370 µs", "1.54 ms", "23.4 ms", "1.23 s".
  package static func time(microseconds: UInt64) -> String {
    switch microseconds {
    case ..<1_000: "\(microseconds) µs"
    case ..<10_000: "\(fixed(Double(microseconds) / 1_000, 2)) ms"
    case ..<1_000_000: "\(fixed(Double(microseconds) / 1_000, 1)) ms"
    default: "\(fixed(Double(microseconds) / 1_000_000, 2)) s"
    }
  }

  /// A duration of the run: "30 s", "2 min", "1 min 30 s".
  package static func duration(seconds: Double) -> String {
    guard seconds >= 60 else { return "\(trimmed(seconds, 1)) s" }
    let whole = Int(min(seconds, 1e12).rounded())
    let (minutes, rest) = whole.quotientAndRemainder(dividingBy: 60)
    return rest == 0 ? "\(minutes) min" : "\(minutes) min \(rest) s"
  }

  /// A size in powers of 1,000: "812 B", "7.9 kB", "63.2 MB", "1.20 GB".
  package static func bytes(_ count: UInt64) -> String {
    switch count {
    case ..<1_000: "\(count) B"
    case ..<1_000_000: "\(fixed(Double(count) / 1e3, 1)) kB"
    case ..<1_000_000_000: "\(fixed(Double(count) / 1e6, 1)) MB"
    default: "\(fixed(Double(count) / 1e9, 2)) GB"
    }
  }

  /// An integer with commas: "10,000".
  package static func count(_ value: some BinaryInteger) -> String {
    let digits = String(value.magnitude)
    var grouped = ""
    for (index, digit) in digits.enumerated() {
      if index > 0, (digits.count - index).isMultiple(of: 3) { grouped.append(",") }
      grouped.append(digit)
    }
    return value < 0 ? "-" + grouped : grouped
  }

  /// A number with exactly `places` digits behind the point, rounded half up.
  package static func fixed(_ value: Double, _ places: Int) -> String {
    guard value.isFinite, value.magnitude < 1e15 else { return "–" }
    var scale: Int64 = 1
    for _ in 0..<places { scale *= 10 }
    let scaled = Int64((value.magnitude * Double(scale)).rounded())
    let sign = value < 0 && scaled != 0 ? "-" : ""
    guard places > 0 else { return "\(sign)\(scaled)" }
    let (whole, rest) = scaled.quotientAndRemainder(dividingBy: scale)
    let digits = String(rest)
    return sign + "\(whole)." + String(repeating: "0", count: places - digits.count) + digits
  }

  /// Like `fixed`, without zeros at the end: "200", "0.5".
  package static func trimmed(_ value: Double, _ places: Int) -> String {
    var text = fixed(value, places)
    guard text.contains(".") else { return text }
    while text.hasSuffix("0") { text.removeLast() }
    if text.hasSuffix(".") { text.removeLast() }
    return text
  }
}
