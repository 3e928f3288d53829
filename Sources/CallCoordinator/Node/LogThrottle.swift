package import CallCore
internal import CallTelemetry
internal import Logging
internal import Synchronization

/// Lets one log line through per window, with the number of occurrences since the last one.
struct LogThrottle: Sendable {
  private static let window = Span.seconds(10)
  private var opensAt = Timestamp(microseconds: .min)
  private var suppressed = 0

  /// Returns how many occurrences this line stands for; nil if it must not be logged now.
  mutating func admit(now: Timestamp) -> Int? {
    suppressed += 1
    guard now >= opensAt else { return nil }
    defer { suppressed = 0 }
    opensAt = now + Self.window
    return suppressed
  }

  /// Logs a warning, with the number of occurrences, unless the window is closed.
  mutating func warn(
    _ logger: Logger, now: Timestamp, _ message: @autoclosure () -> Logger.Message,
    _ keys: @autoclosure () -> KeyValuePairs<LogKey, Logger.MetadataValue>
  ) {
    guard let count = admit(now: now) else { return }
    var metadata = Logger.Metadata.keys(keys())
    metadata[LogKey.count.rawValue] = "\(count)"
    logger.warning(message(), metadata: metadata)
  }
}

/// Measures the share of time that a loop works instead of waiting. Check it first when a node is slow.
package final class BusyMeter: Sendable {
  private struct State {
    var worked: Int64 = 0
    var windowBegan: Int64 = 0
    var share = 0.0
  }
  private let state = Mutex(State())
  private static let windowMicroseconds: Int64 = 5_000_000

  package init() {}

  package func worked(from begin: Timestamp, to end: Timestamp) {
    state.withLock { state in
      if state.windowBegan == 0 { state.windowBegan = begin.microseconds }
      state.worked += end.microseconds - begin.microseconds
      let window = end.microseconds - state.windowBegan
      guard window >= Self.windowMicroseconds else { return }
      state.share = min(1, Double(state.worked) / Double(window))
      state.worked = 0
      state.windowBegan = end.microseconds
    }
  }

  /// From 0 to 1, over the last complete window of 5 s or longer.
  package var share: Double { state.withLock { $0.share } }
}
