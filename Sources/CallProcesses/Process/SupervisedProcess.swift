import Glibc
import Synchronization

/// A member of a local cluster: it can be killed, frozen and started again at the same ports and store.
package final class SupervisedProcess: Sendable {
  private struct State {
    var process: ChildProcess
    var next: ChildCommand
    /// CPU time of its former processes, as sampled before their ends.
    var spentMicroseconds: UInt64 = 0
  }

  package let role: ProcessRole
  package let name: String
  private let processes: ProcessSet
  private let state: Mutex<State>

  /// Starts it.
  /// - Throws: ``ProcessFailure`` with the system's reason.
  package init(_ role: ProcessRole, _ command: ChildCommand, in processes: ProcessSet) async throws
  {
    self.role = role
    self.name = command.name
    self.processes = processes
    let process = try await processes.start(command)
    self.state = Mutex(State(process: process, next: command.other))
  }

  package var process: ChildProcess { state.withLock { $0.process } }

  /// Ends it at once, as a crash or a power failure would.
  package func kill() {
    expectEnd()
    process.send(SIGKILL)
  }

  /// Stops it at any point, as a paused virtual machine would. What is sent to it waits.
  package func freeze() { process.send(SIGSTOP) }

  package func wake() { process.send(SIGCONT) }

  /// Asks it to end in good order, and kills it after `timeout`.
  /// - Returns: whether it ended by itself, with status 0.
  package func terminate(timeout: Duration) async -> Bool {
    expectEnd()
    process.send(SIGTERM)
    if let end = await process.end(within: timeout) { return end == .exited(0) }
    process.send(SIGKILL)
    return false
  }

  /// Starts it again, once its process has ended; with the other program, where there are two.
  /// - Throws: ``ProcessFailure`` with the system's reason.
  package func startAgain() async throws {
    while process.poll() == nil { await Pause.milliseconds(2) }
    let command = state.withLock { $0.next }
    let next = try await processes.start(command, inPlaceOf: process)
    state.withLock {
      $0.process = next
      $0.next = command.other
    }
  }

  /// Changes how it is started the next time.
  package func change(_ change: (inout ChildCommand) -> Void) {
    state.withLock { change(&$0.next) }
  }

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
