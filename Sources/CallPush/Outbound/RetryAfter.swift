package import CallCore

/// The `Retry-After` header (RFC 9110, 10.2.3): seconds, or a date in any of the three forms that
/// a recipient has to know (RFC 9110, 5.6.7).
package enum RetryAfter {
  /// Longer waits mean the same to us: not within any call.
  static let secondsMax: Int64 = 86_400

  /// How long to wait; zero for a date that has passed; nil for text that is neither.
  package static func span(_ text: String, now: Timestamp) -> Span? {
    let trimmed = text.trimming(" \t")
    if !trimmed.isEmpty, trimmed.utf8.allSatisfy({ (48...57).contains($0) }) {
      return .seconds(min(Int64(trimmed) ?? secondsMax, secondsMax))
    }
    guard let at = secondsSince1970(trimmed) else { return nil }
    let wait = at - now.microseconds / 1_000_000
    return .seconds(min(max(0, wait), secondsMax))
  }

  /// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`.
  static func secondsSince1970(_ text: String) -> Int64? {
    let parts = text.split { $0 == " " || $0 == "," || $0 == "-" }
    switch parts.count {
    case 6:  // Name, day, month, year, time, GMT.
      guard parts[5] == "GMT", let day = number(parts[1], 1...31), let month = month(parts[2]),
        let year = year(parts[3]), let seconds = timeOfDay(parts[4])
      else { return nil }
      return days(year, month, day) * 86_400 + seconds
    case 5:  // Name, month, day, time, year.
      guard let month = month(parts[1]), let day = number(parts[2], 1...31),
        let seconds = timeOfDay(parts[3]), let year = year(parts[4])
      else { return nil }
      return days(year, month, day) * 86_400 + seconds
    default: return nil
    }
  }

  private static func number(_ text: Substring, _ range: ClosedRange<Int64>) -> Int64? {
    guard text.utf8.allSatisfy({ (48...57).contains($0) }), let value = Int64(text),
      range.contains(value)
    else { return nil }
    return value
  }

  /// Two digits are of the twentieth century from 70 on, else of ours.
  private static func year(_ text: Substring) -> Int64? {
    switch text.utf8.count {
    case 4: number(text, 1970...9999)
    case 2: number(text, 0...99).map { $0 < 70 ? 2000 + $0 : 1900 + $0 }
    default: nil
    }
  }

  private static func month(_ text: Substring) -> Int64? {
    let names = [
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    return names.firstIndex { $0 == text }.map { Int64($0) + 1 }
  }

  private static func timeOfDay(_ text: Substring) -> Int64? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 3, let hour = number(parts[0], 0...23),
      let minute = number(parts[1], 0...59), let second = number(parts[2], 0...60)
    else { return nil }
    return hour * 3600 + minute * 60 + second
  }

  /// Days since 1970 of a date of the Gregorian calendar, after Howard Hinnant.
  private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let shifted = month <= 2 ? year - 1 : year
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return era * 146_097 + dayOfEra - 719_468
  }
}

extension String {
  func trimming(_ characters: String) -> String {
    let start = drop { characters.contains($0) }
    guard let last = start.lastIndex(where: { !characters.contains($0) }) else { return "" }
    return String(start[...last])
  }
}
