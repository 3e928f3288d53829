import Synchronization

/// The live numbers of a run, written by the engine and read from any task.
package final class LoadProgress: Sendable {
  package enum Phase: String, Sendable {
    case idle, connecting, registering, calling, settling, disconnecting, done
  }

  package struct Snapshot: Sendable {
    package var phase: Phase = .idle
    /// Of the phase: devices connected or registered, calls placed, calls settled.
    package var done = 0
    package var total = 0
    package var devicesConnected = 0
    package var callsLive = 0
    package var callsPlaced = 0
    package var callsCompleted = 0
    /// Failed calls, and devices that could not connect or register.
    package var errors = 0
    /// Broken correctness rules, as far as calls have been judged.
    package var violations = 0
    /// Injected until now.
    package var faults = 0
    /// Calls placed a second, over the last second.
    package var rate: Double = 0
    /// 99th percentile of ring in microseconds, over the last second; nil without calls.
    package var ringP99: UInt64?
  }

  private let state = Mutex(Snapshot())

  package init() {}

  package var snapshot: Snapshot { state.withLock { $0 } }

  func update(_ change: (inout Snapshot) -> Void) { state.withLock { change(&$0) } }
}
