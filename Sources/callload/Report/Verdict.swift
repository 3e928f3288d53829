package struct Verdict: Sendable, Equatable {
  /// Each reason not to be content, as a phrase.
  package var problems: [String]
  package var wasInterrupted: Bool

  package init(_ report: RunReport) {
    let result = report.result
    wasInterrupted = result.interrupted
    problems = report.incidents
    if result.devicesConnected < result.devicesExpected {
      let missing = result.devicesExpected - result.devicesConnected
      problems.append(
        "\(Units.count(missing)) of \(Units.count(result.devicesExpected)) devices did not connect")
    }
    if result.callsAccountedFor < result.callsExpected {
      let missing = result.callsExpected - result.callsAccountedFor
      problems.append(
        "\(Units.count(missing)) of \(Units.count(result.callsExpected)) calls were not completed")
    }
    problems += result.brokenRules
    problems += HostileReport(report.hostile)?.problems ?? []
    for growth in report.growth where !growth.isFlat {
      problems.append(
        "\(growth.name) grew from \(Units.bytes(growth.before)) to \(Units.bytes(growth.after))")
    }
    if let chaos = result.chaos, chaos.injected.isEmpty, !result.interrupted {
      problems.append("no fault was injected: give it a longer --duration or shorter intervals")
    }
    if let chaos = result.chaos, chaos.neverAnswered > 0 {
      problems.append("shards never answered again after \(chaos.neverAnswered) faults")
    }
  }

  package var isOK: Bool { problems.isEmpty && !wasInterrupted }

  /// 0 content, 1 not, 130 ended by Ctrl-C or SIGTERM. (2 is for what never started.)
  package var exitStatus: Int32 { wasInterrupted ? 130 : problems.isEmpty ? 0 : 1 }

  package func line(_ result: RunResult) -> String {
    if wasInterrupted {
      let more = problems.filter { !$0.contains("calls were not completed") }
      return "INTERRUPTED before the end"
        + (more.isEmpty ? "" : "; " + more.joined(separator: "; "))
    }
    guard problems.isEmpty else { return "FAILED: " + problems.joined(separator: "; ") }
    return "OK: \(result.devicesConnected)/\(result.devicesExpected) devices, "
      + "\(result.callsCompleted)/\(result.callsExpected) calls, every correctness count is 0"
  }
}
