internal import Glibc

/// Wall-clock time as text, without Foundation.
public enum CalendarTime {
  /// The wall clock, in milliseconds since 1970.
  public static func nowMilliseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  /// `2026-01-02T03:04:05.678Z`.
  public static func text(milliseconds: Int64) -> String {
    let days = floorDivision(milliseconds, 86_400_000)
    let rest = Int(milliseconds - days * 86_400_000)
    let (year, month, day) = civil(daysSince1970: days)
    let hour = rest / 3_600_000
    let minute = rest / 60_000 % 60
    let second = rest / 1000 % 60
    return
      "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))"
      + "T\(padded(hour, 2)):\(padded(minute, 2)):\(padded(second, 2)).\(padded(rest % 1000, 3))Z"
  }

  /// Howard Hinnant's algorithm for the proleptic Gregorian calendar; years begin in March within.
  private static func civil(daysSince1970 days: Int64) -> (year: Int, month: Int, day: Int) {
    let shifted = days + 719_468
    let era = floorDivision(shifted, 146_097)
    let dayOfEra = shifted - era * 146_097
    let yearOfEra =
      (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let marchMonth = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
    let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
    return (Int(yearOfEra + era * 400) + (month <= 2 ? 1 : 0), Int(month), Int(day))
  }

  private static func floorDivision(_ value: Int64, _ by: Int64) -> Int64 {
    value >= 0 ? value / by : -((-value + by - 1) / by)
  }

  private static func padded(_ number: Int, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
  }
}
