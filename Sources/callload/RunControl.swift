import Synchronization

/// What ends a run early, seen from any task: signals, and servers that die.
package final class RunControl: Sendable {
  private struct State {
    var engine: LoadEngine?
    var wasInterrupted = false
    var incidents: [String] = []
    /// What the run does outside of the engine; empty while that is at work.
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

  /// From now on, what ends the run ends the engine.
  package func attach(_ engine: LoadEngine) {
    let isWanted = state.withLock { state in
      state.engine = engine
      return !state.wasInterrupted && state.incidents.isEmpty
    }
    if !isWanted { engine.stop() }
  }

  package func interrupt() { end { $0.wasInterrupted = true } }

  package func fail(_ incident: String) { end { $0.incidents.append(incident) } }

  /// What happened until now concerns nothing that follows.
  package func forgetIncidents() { state.withLock { $0.incidents = [] } }

  private func end(_ change: (inout State) -> Void) {
    let engine = state.withLock { state in
      change(&state)
      return state.engine
    }
    engine?.stop()
  }
}
