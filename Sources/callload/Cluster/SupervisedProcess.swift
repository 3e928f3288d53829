import Glibc
import Synchronization

/// A member of the local cluster: it can be killed, frozen and started again at the same ports and store.
package final class SupervisedProcess: Sendable {
  private struct State {
    var process: ChildProcess
    /// What its next life runs.
    var next: ChildCommand
    /// Of the lives that are over, as far as it was looked at before they ended.
    var spentMicroseconds: UInt64 = 0
  }

  package let role: ProcessRole
  package let name: String
  private let processes: ProcessSet
  private let state: Mutex<State>

  private init(
    role: ProcessRole, command: ChildCommand, processes: ProcessSet, process: ChildProcess
  ) {
    self.role = role
    self.name = command.name
    self.processes = processes
    self.state = Mutex(State(process: process, next: command.other))
  }

  /// - Throws: ``SetupError`` with the system's reason.
  package static func start(
    _ role: ProcessRole, _ command: ChildCommand, in processes: ProcessSet
  ) async throws -> SupervisedProcess {
    let process = try await processes.start(command)
    return SupervisedProcess(role: role, command: command, processes: processes, process: process)
  }

  /// The life that is on, or the last one.
  package var process: ChildProcess { state.withLock { $0.process } }

  /// Ends it without a word, as a crash or a power failure would.
  package func kill() {
    expectEnd()
    process.send(SIGKILL)
  }

  /// Stops it in mid-step, as a paused virtual machine would. What is sent to it waits.
  package func freeze() { process.send(SIGSTOP) }

  package func wake() { process.send(SIGCONT) }

  /// Asks it to end in good order. What does not end within `patience` is killed.
  /// - Returns: whether it ended by itself, with status 0.
  package func terminate(patience: Duration) async -> Bool {
    expectEnd()
    process.send(SIGTERM)
    if let end = await process.end(within: patience) { return end == .exited(0) }
    process.send(SIGKILL)
    return false
  }

  /// Starts it again, once its last life is over; with the other program, where there are two.
  /// - Throws: ``SetupError`` with the system's reason.
  package func startAgain() async throws {
    while process.poll() == nil { await Pause.milliseconds(2) }
    let command = state.withLock { $0.next }
    let next = try await processes.start(command, inPlaceOf: process)
    state.withLock {
      $0.process = next
      $0.next = command.other
    }
  }

  /// What it has used in all of its lives until now.
  package func sample() -> ProcessFiles.Sample? {
    state.withLock { state in
      guard var sample = ProcessFiles.sample(processID: state.process.processID) else { return nil }
      sample.cpuMicroseconds += state.spentMicroseconds
      return sample
    }
  }

  private func expectEnd() {
    state.withLock { state in
      state.process.expectEnd()
      let sample = ProcessFiles.sample(processID: state.process.processID)
      state.spentMicroseconds += sample?.cpuMicroseconds ?? 0
    }
  }
}

/// Waiting that ends early where the task is cancelled.
enum Pause {
  static func milliseconds(_ count: Int) async {
    do {
      try await Task.sleep(for: .milliseconds(count))
    } catch {
      // A cancelled task must not spin in a loop that waits for something.
      await Task.detached { try? await Task.sleep(for: .milliseconds(2)) }.value
    }
  }
}
