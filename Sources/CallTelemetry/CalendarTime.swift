internal import Glibc

/// Wall-clock time as text, without Foundation.
public enum CalendarTime {
  /// The wall clock, in milliseconds since 1970.
  public static func nowMilliseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  /// Returns UTC such as `2026-01-02T03:04:05.678Z`.
  public static func text(milliseconds: Int64) -> String {
    var (seconds, rest) = milliseconds.quotientAndRemainder(dividingBy: 1000)
    if rest < 0 { (seconds, rest) = (seconds - 1, rest + 1000) }
    var clock = time_t(seconds)
    var time = tm()
    gmtime_r(&clock, &time)
    let date =
      "\(padded(time.tm_year + 1900, 4))-\(padded(time.tm_mon + 1))-\(padded(time.tm_mday))"
    let hours = "\(padded(time.tm_hour)):\(padded(time.tm_min)):\(padded(time.tm_sec))"
    return "\(date)T\(hours).\(padded(Int32(rest), 3))Z"
  }

  private static func padded(_ number: Int32, _ width: Int = 2) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
  }
}

/// The version of this build, as nodes report it and `--version` prints it.
public enum CallmeshVersion {
  public static let current = "0.1.0"
}
