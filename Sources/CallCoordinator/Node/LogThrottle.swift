internal import CallCore

/// Lets one line through per window, and says how many were held back since.
struct LogThrottle: Sendable {
  let window: Span
  private var opensAt = Timestamp(microseconds: .min)
  private var suppressed = 0

  init(window: Span = .seconds(10)) { self.window = window }

  /// nil: not now. Else how many occurrences this line stands for.
  mutating func admit(now: Timestamp) -> Int? {
    suppressed += 1
    guard now >= opensAt else { return nil }
    defer { suppressed = 0 }
    opensAt = now + window
    return suppressed
  }
}
