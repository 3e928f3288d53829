import Glibc
import Synchronization

/// The processes of this run, in the order of their starts. It ends them.
package final class ProcessSet: Sendable {
  private struct State {
    var children: [ChildProcess] = []
    var isStopping = false
  }
  private let state = Mutex(State())

  package init() {}

  package var all: [ChildProcess] { state.withLock { $0.children } }

  /// Starts a process and adds it.
  /// - Parameter former: a process that has ended and is removed.
  /// - Throws: ``ProcessFailure`` with the system's reason.
  package func start(_ command: ChildCommand, inPlaceOf former: ChildProcess? = nil) async throws
    -> ChildProcess
  {
    let child = try await ChildLauncher.start(command)
    let isTooLate = state.withLock { state in
      state.children.removeAll { $0 === former }
      state.children.append(child)
      return state.isStopping
    }
    if isTooLate { child.send(SIGKILL) }
    return child
  }

  /// A process that ended unexpectedly.
  package func firstDeath() -> (child: ChildProcess, end: ProcessEnd)? {
    let (children, isStopping) = state.withLock { ($0.children, $0.isStopping) }
    guard !isStopping else { return nil }
    for child in children where !child.isExpectedToEnd {
      if let end = child.poll() { return (child, end) }
    }
    return nil
  }

  /// Waits until a process ends unexpectedly, or the task is cancelled.
  package func nextDeath() async -> (child: ChildProcess, end: ProcessEnd)? {
    while !Task.isCancelled {
      if let death = firstDeath() { return death }
      try? await Task.sleep(for: .milliseconds(50))
    }
    return nil
  }

  /// Ends all: nodes first and NATS after them, so that nodes can still leave the bus. A process that does
  /// not end within `timeout` is killed. The task must not be cancelled.
  package func stop(timeout: Duration = .seconds(5)) async {
    let children = stopAccepting()
    let buses = children.filter { $0.name.hasPrefix("nats") }
    let nodes = children.filter { !$0.name.hasPrefix("nats") }
    for group in [nodes, buses] {
      for child in group {
        child.send(SIGTERM)
        // A frozen process handles the signal only once it continues.
        child.send(SIGCONT)
      }
      let deadline = ContinuousClock.now + timeout
      for child in group { _ = await child.end(within: deadline - .now) }
      for child in group where child.poll() == nil { child.send(SIGKILL) }
      for child in group { _ = await child.end(within: .seconds(2)) }
    }
  }

  /// Removes all processes, which have ended, and accepts new ones.
  package func reset() { state.withLock { $0 = State() } }

  package func killNow() {
    for child in stopAccepting() where child.poll() == nil { child.send(SIGKILL) }
  }

  /// All processes; one that starts from now on is killed.
  private func stopAccepting() -> [ChildProcess] {
    state.withLock { state in
      state.isStopping = true
      return state.children
    }
  }
}
