import Synchronization

/// The causes that end a run early: signals, and servers that ended. Used from any task.
package final class RunControl: Sendable {
  private struct State {
    var engine: LoadEngine?
    var wasInterrupted = false
    var incidents: [String] = []
    /// The present step outside of the load; empty while the load is at work.
    var step = "starting"
  }
  private let began = ContinuousClock.now
  private let state = Mutex(State())

  package var wasInterrupted: Bool { state.withLock { $0.wasInterrupted } }
  package var incidents: [String] { state.withLock { $0.incidents } }
  package var isWanted: Bool { state.withLock { !$0.wasInterrupted && $0.incidents.isEmpty } }

  package var secondsSinceStart: Double { began.duration(to: .now) / .seconds(1) }
  package var step: String { state.withLock { $0.step } }
  package func begin(step: String) { state.withLock { $0.step = step } }

  /// The end of the run ends the load from now on.
  package func attach(_ engine: LoadEngine) {
    state.withLock { $0.engine = engine }
    if !isWanted { engine.stop() }
  }

  package func interrupt() { end { $0.wasInterrupted = true } }

  package func fail(_ incident: String) { end { $0.incidents.append(incident) } }

  /// Removes the incidents of a round, so that the next one can begin.
  package func forgetIncidents() { state.withLock { $0.incidents = [] } }

  private func end(_ change: (inout State) -> Void) {
    let engine = state.withLock { state in
      change(&state)
      return state.engine
    }
    engine?.stop()
  }
}
