import CallCore

/// Keeps calls of one user to another below the cluster's limit of 10 a minute.
struct PairLimiter {
  private struct Window {
    var begins: Timestamp
    var count: Int
  }
  private var windows: [UInt64: Window] = [:]
  private var sweepAt = Timestamp.zero

  private static let span: Span = .seconds(61)
  /// Half of the limit, since two windows may touch within a minute.
  private static let most = 5

  /// Whether one more call fits, counted if so.
  mutating func reserve(_ caller: Int, _ callee: Int, at now: Timestamp) -> Bool {
    if sweepAt < now {
      sweepAt = now + Self.span
      windows = windows.filter { now < $0.value.begins + Self.span }
    }
    let key = UInt64(caller) << 32 | UInt64(callee)
    guard let window = windows[key], now < window.begins + Self.span else {
      windows[key] = Window(begins: now, count: 1)
      return true
    }
    guard window.count < Self.most else { return false }
    windows[key]?.count += 1
    return true
  }
}
