extension Timestamp {
  /// Reads a time as ISO 8601 has it: `2026-01-02T03:04:05.678Z`, with or without the fraction; in place of `Z` an
  /// offset such as `+02:00`; also a date alone, which is its midnight. nil for anything else. Always UTC where no
  /// offset is given.
  public init?(iso8601 text: some StringProtocol) {
    var bytes = Array(text.utf8)[...]
    func number(_ digits: Int, behind separator: Character? = nil) -> Int64? {
      if let separator {
        guard bytes.first == separator.asciiValue else { return nil }
        bytes.removeFirst()
      }
      let taken = bytes.prefix(digits)
      guard taken.count == digits, taken.allSatisfy({ (48...57).contains($0) }) else { return nil }
      bytes.removeFirst(digits)
      return taken.reduce(0) { $0 * 10 + Int64($1 - 48) }
    }
    guard let year = number(4), let month = number(2, behind: "-"),
      let day = number(2, behind: "-"),
      (1...12).contains(month), (1...31).contains(day)
    else { return nil }
    var seconds = Self.days(year, month, day) * 86_400
    var micros: Int64 = 0
    if !bytes.isEmpty {
      guard let hour = number(2, behind: bytes.first == 32 ? " " : "T"),
        let minute = number(2, behind: ":"), hour < 24, minute < 60
      else { return nil }
      seconds += hour * 3600 + minute * 60
      if let second = number(2, behind: ":") {
        guard second <= 60 else { return nil }
        seconds += second
        if bytes.first == UInt8(ascii: ".") {
          bytes.removeFirst()
          let fraction = bytes.prefix { (48...57).contains($0) }
          guard !fraction.isEmpty, fraction.count <= 9 else { return nil }
          bytes.removeFirst(fraction.count)
          let digits = fraction.prefix(6)
          micros = digits.reduce(0) { $0 * 10 + Int64($1 - 48) }
          for _ in digits.count..<6 { micros *= 10 }
        }
      }
    }
    switch bytes.first {
    case nil: break
    case UInt8(ascii: "Z"): bytes.removeFirst()
    case UInt8(ascii: "+"), UInt8(ascii: "-"):
      let sign: Int64 = bytes.removeFirst() == UInt8(ascii: "+") ? -1 : 1
      guard let hours = number(2), let minutes = number(2, behind: ":"), hours < 24, minutes < 60
      else { return nil }
      seconds += sign * (hours * 3600 + minutes * 60)
    default: return nil
    }
    guard bytes.isEmpty else { return nil }
    self.init(microseconds: seconds * 1_000_000 + micros)
  }

  /// Days since 1970-01-01, in the Gregorian calendar.
  private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    // The year begins in March, so that the leap day is its last.
    let year = month <= 2 ? year - 1 : year
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    return 365 * year + year / 4 - year / 100 + year / 400 + dayOfYear - 719_468
  }
}
