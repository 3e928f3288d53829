/// Durations as people write them: `500ms`, `30s`, `2m`, `1h`, `90d`; a bare number is seconds.
package enum DurationText {
  /// Longest first, so that text is as short as it can be.
  private static let units: [(name: String, microseconds: Int64)] = [
    ("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000),
    ("ms", 1000), ("us", 1),
  ]

  package static func microseconds(_ text: String) -> Int64? {
    let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    let unit = text.dropFirst(number.count)
    guard let first = number.first, first != ".", number.last != ".", number.utf8.count <= 15,
      let value = Double(number)
    else { return nil }
    let factor: Int64
    if unit.isEmpty {
      factor = 1_000_000
    } else if let known = units.first(where: { $0.name == unit }) {
      factor = known.microseconds
    } else {
      return nil
    }
    let product = (value * Double(factor)).rounded()
    return product < 9e15 ? Int64(product) : nil
  }

  /// In the longest unit that divides it, but nothing up to three minutes in minutes: `90s`, `10m`.
  package static func text(microseconds: Int64) -> String {
    for unit in units where microseconds % unit.microseconds == 0 && microseconds != 0 {
      if unit.name == "m", microseconds <= 180_000_000 { continue }
      return "\(microseconds / unit.microseconds)\(unit.name)"
    }
    return "\(microseconds / 1_000_000)s"
  }

  package static func text(seconds: Double) -> String {
    text(microseconds: Int64((seconds * 1e6).rounded()))
  }
}
