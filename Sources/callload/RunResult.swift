package import Histogram

/// The stages of a call that are timed. Raw values are the names in the JSON report.
package enum LatencyPhase: String, CaseIterable, Sendable {
  /// TCP connect → WebSocket open and attached.
  case connect
  /// register → its reply.
  case register
  /// Intended time of place → the last of the callee's devices has the invite.
  case ring
  /// Intended time of the answer → the caller is told.
  case answer
  /// Intended time of the answer → the last other device is told.
  case elsewhere
  /// Intended time of cancel → the last device is told.
  case cancel
  /// How far from its deadline an unanswered call ended, in either direction.
  case timeout
}

/// The counts that must be 0. Raw values are the names in the JSON report.
package enum CorrectnessRule: String, CaseIterable, Sendable {
  case twoWinners, noWinner, ringingAfterEnd, toldToRingAfterEnd, wrongReason, winnerToldItLost
  case duplicateEnd, commandLost, unexplainedError

  /// The line of the report.
  package var title: String {
    switch self {
    case .twoWinners: "two winners"
    case .noWinner: "no winner"
    case .ringingAfterEnd: "still ringing after the end"
    case .toldToRingAfterEnd: "told to ring after the end"
    case .wrongReason: "wrong reason"
    case .winnerToldItLost: "winner told it lost"
    case .duplicateEnd: "duplicate end"
    case .commandLost: "command lost"
    case .unexplainedError: "unexplained error"
    }
  }
}

/// All that a load run found out, apart from what the processes used.
package struct RunResult {
  package var devicesExpected = 0
  package var devicesConnected = 0
  package var devicesRegistered = 0
  package var callsExpected = 0
  package var callsPlaced = 0
  package var callsCompleted = 0
  /// Calls by scenario part, for the report.
  package var callsByPart: [String: Int] = [:]
  /// Cause → count.
  package var failures: [String: Int] = [:]
  package var correctness: [CorrectnessRule: Int] = [:]
  /// For each broken rule a few readable traces of the calls concerned.
  package var examples: [CorrectnessRule: [String]] = [:]
  /// Microseconds.
  package var latency: [LatencyPhase: Histogram<UInt32>] = [:]
  /// The measured part, without ramp and settling.
  package var loadSeconds: Double = 0
  package var rampSeconds: Double = 0
  package var interrupted = false
  package init() {}

  package var isCorrect: Bool { correctness.values.allSatisfy { $0 == 0 } }
}
