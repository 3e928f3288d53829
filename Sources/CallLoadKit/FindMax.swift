/// Searches the highest rate that holds: doubles until one fails, then halves the interval. Does no I/O.
package struct RateSearch: Sendable, Equatable {
  /// Highest rate that held, lowest that failed.
  package private(set) var held: Double?
  package private(set) var failed: Double?
  private let start: Double
  private static let (lowest, highest) = (5.0, 100_000.0)
  /// The search ends when what held and what failed differ by less than this share.
  private static let resolution = 0.05

  package init(start: Double) { self.start = min(max(start, Self.lowest), Self.highest) }

  package var next: Double? {
    switch (held, failed) {
    case (nil, nil): return start
    case (let held?, nil): return held >= Self.highest ? nil : min(held * 2, Self.highest)
    case (nil, let failed?):
      return failed <= Self.lowest ? nil : max((failed / 2).rounded(), Self.lowest)
    case (let held?, let failed?):
      let middle = ((held + failed) / 2).rounded()
      guard failed - held > held * Self.resolution, middle > held, middle < failed
      else { return nil }
      return middle
    }
  }

  package mutating func record(_ rate: Double, holds: Bool) {
    if holds {
      held = max(held ?? rate, rate)
    } else {
      failed = min(failed ?? rate, rate)
    }
  }
}

package struct SearchStage: Sendable, Equatable {
  package var rate: Double
  package var placedPerSecond: Double
  package var calls: Int
  package var ringP50: UInt64
  package var ringP99: UInt64
  /// Microseconds of server CPU per call; nil where callload did not start the servers.
  package var cpuPerCall: Double?
  /// Empty where the rate holds.
  package var reasons: [String]

  package var holds: Bool { reasons.isEmpty }

  /// - Parameter ringP99Max: microseconds.
  package init(rate: Double, result: RunResult, cpuPerCall: Double?, ringP99Max: UInt64) {
    self.rate = rate
    self.cpuPerCall = cpuPerCall
    calls = result.callsPlaced
    placedPerSecond = result.callsPerSecond ?? 0
    let ring = Percentiles(result.latency[.ring])
    ringP50 = ring?.p50 ?? 0
    ringP99 = ring?.p99 ?? 0
    reasons = []
    let failures = result.failures.values.reduce(0, +)
    if failures > 0 { reasons.append("\(Units.count(failures)) failures") }
    let missing = result.callsExpected - result.callsCompleted
    if missing > 0 { reasons.append("\(Units.count(missing)) calls not completed") }
    reasons += result.brokenRules
    if ring == nil { reasons.append("nothing rang") }
    if ringP99 > ringP99Max {
      reasons.append("ring p99 above \(Units.time(microseconds: ringP99Max))")
    }
    if placedPerSecond < rate * 0.95 {
      reasons.append("callload placed only \(Units.fixed(placedPerSecond, 0))/s")
    }
  }
}

package struct SearchReport: Sendable, Equatable {
  package var stages: [SearchStage]
  /// Microseconds.
  package var ringP99Max: UInt64

  package init(stages: [SearchStage], ringP99Max: UInt64) {
    self.stages = stages
    self.ringP99Max = ringP99Max
  }

  package var best: SearchStage? { stages.filter(\.holds).max { $0.rate < $1.rate } }

  package func text(_ style: TextStyle) -> [String] {
    var table = TextTable(
      ["calls/s asked", "placed", "calls", "ring p50", "ring p99", "CPU µs/call", "holds"])
    for stage in stages {
      table.add(
        Units.trimmed(stage.rate, 1), Units.fixed(stage.placedPerSecond, 1),
        Units.count(stage.calls), Units.time(microseconds: stage.ringP50),
        Units.time(microseconds: stage.ringP99),
        stage.cpuPerCall.map { Units.fixed($0, 0) } ?? "–", stage.holds ? "yes" : "no")
    }
    let rows = table.lines()
    var lines = [style.bold("Search for the highest rate that holds"), rows[0]]
    for (stage, row) in zip(stages, rows.dropFirst()) {
      lines.append(
        stage.holds ? row : style.bad(row) + "  " + stage.reasons.joined(separator: ", "))
    }
    let bound =
      "no failure, every correctness count 0, ring p99 at most "
      + Units.time(microseconds: ringP99Max)
    if let best {
      lines += ["", style.good("\(Units.trimmed(best.rate, 1)) calls/s hold (\(bound))")]
    } else {
      lines += ["", style.bad("no rate held (\(bound))")]
    }
    return lines
  }
}
