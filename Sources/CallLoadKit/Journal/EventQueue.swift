package import CallCore
package import CallJudge
import Synchronization

/// The events that wait for the judge, from the devices' loop.
package final class EventQueue: Sendable {
  private struct State {
    var events: [SeenEvent] = []
    var reached = Timestamp.zero
    var isFull = false
  }

  /// Policy when full: refuse, and judge no more. The journal is away for long then.
  package static let most = 4_000_000

  private let state = Mutex(State())

  package init() {}

  /// - Parameter reached: no event before this time is to come.
  package func add(_ events: [SeenEvent], reached: Timestamp) {
    state.withLock { state in
      state.isFull = state.isFull || state.events.count + events.count > Self.most
      // Behind what is missing nothing is judged, so the time stands still.
      guard !state.isFull else { return }
      state.events += events
      state.reached = reached
    }
  }

  package var reached: Timestamp { state.withLock { $0.reached } }
  package var isFull: Bool { state.withLock { $0.isFull } }

  package func take() -> (events: [SeenEvent], reached: Timestamp) {
    state.withLock { state in
      defer { state.events = [] }
      return (state.events, state.reached)
    }
  }
}
