package import CallCore
internal import Synchronization

/// Which share of the time a loop works instead of waiting: the first thing to look at when a node
/// is slow.
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

  /// 0...1, over the last whole window of 5 s or longer.
  package var share: Double { state.withLock { $0.share } }
}
