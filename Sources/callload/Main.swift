import ArgumentParser
import Glibc
import Synchronization

@main struct Main {
  static func main() async {
    let command = parse()
    if let path = command.attackOrders { await AttackerProgram.run(ordersPath: path) }
    let plan: RunPlan
    do {
      plan = try RunPlan(command, seed: command.seed ?? UInt64.random(in: 1...999_999))
      let needed = FileLimit.needed(devices: plan.settings.devices)
      if let refusal = FileLimit.raise(toward: needed).refusal(devices: plan.settings.devices) {
        throw SetupError(refusal)
      }
    } catch {
      fail("callload: \(error)")
    }
    // A reader that closes its pipe must not end the run before the cluster is stopped.
    signal(SIGPIPE, SIG_IGN)
    let run = LoadRun(plan: plan, console: Console(terminal: .standardError))
    exit(await run.execute())
  }

  private static func parse() -> LoadCommand {
    do {
      return try LoadCommand.parse()
    } catch {
      if LoadCommand.exitCode(for: error).isSuccess { LoadCommand.exit(withError: error) }
      fail(LoadCommand.fullMessage(for: error))
    }
  }

  private static func fail(_ message: String) -> Never {
    Output.write(message + "\n", to: STDERR_FILENO)
    exit(2)
  }
}

/// The causes that end a run early: signals, and servers that ended. Used from any task.
package final class RunControl: Sendable {
  private struct State {
    var engine: LoadEngine?
    var wasInterrupted = false
    var incidents: [String] = []
    /// The present step outside of the engine; empty while the engine is at work.
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

  /// The end of the run ends the engine from now on.
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
