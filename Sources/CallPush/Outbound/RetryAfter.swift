package import CallCore

/// The `Retry-After` header (RFC 9110, 10.2.3): seconds, or a date.
package enum RetryAfter {
  /// Longer waits mean the same to us: not within any call.
  static let secondsMax: Int64 = 86_400

  /// How long to wait; zero for a date that has passed; nil for text that is neither.
  package static func span(_ text: String, now: Timestamp) -> Span? {
    let words = text.split { $0 == " " || $0 == "\t" }
    if words.count == 1, words[0].isASCIIDigits {
      return .seconds(min(Int64(words[0]) ?? secondsMax, secondsMax))
    }
    guard let at = secondsSince1970(text) else { return nil }
    return .seconds(min(max(0, at - now.microseconds / 1_000_000), secondsMax))
  }

  /// The three forms that a recipient has to know (RFC 9110, 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`,
  /// `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`.
  private static func secondsSince1970(_ text: String) -> Int64? {
    var parts = text.split { " ,-\t".contains($0) }
    if parts.count == 5 { parts = [parts[0], parts[2], parts[1], parts[4], parts[3], "GMT"] }
    guard parts.count == 6, parts[5] == "GMT", let day = number(parts[1], 1...31),
      let month = months.firstIndex(of: parts[2]), let year = year(parts[3]),
      let seconds = secondsOfDay(parts[4])
    else { return nil }
    return days(year, Int64(month) + 1, day) * 86_400 + seconds
  }

  private static let months: [Substring] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  private static func number(_ text: Substring, _ range: ClosedRange<Int64>) -> Int64? {
    guard text.isASCIIDigits, let value = Int64(text), range.contains(value) else { return nil }
    return value
  }

  /// Two digits are of the twentieth century from 70 on, else of ours.
  private static func year(_ text: Substring) -> Int64? {
    if text.utf8.count == 4 { return number(text, 1970...9999) }
    guard text.utf8.count == 2 else { return nil }
    return number(text, 0...99).map { $0 < 70 ? 2000 + $0 : 1900 + $0 }
  }

  private static func secondsOfDay(_ text: Substring) -> Int64? {
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
