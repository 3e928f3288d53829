package import CallCore

/// The outcome of one seed.
package struct SimResult: Sendable {
  package var seed: UInt64
  package var failure: SimFailure?
  package var counts: [String: Int]
  package var steps: Int
  package var simulated: Span
  package var traceHash: UInt64
}

package struct SimFailure: Error, Sendable, Equatable, CustomStringConvertible {
  package var seed: UInt64
  package var time: Timestamp
  package var reason: String
  package var call: CallID?

  package var description: String { "seed \(seed): \(reason)" }
}

/// As one line for another process: fields apart by tabs, without the hash of the trace.
extension SimResult {
  package var line: String {
    var fields = ["\(seed)", "\(steps)", "\(simulated.microseconds)"]
    if let failure {
      let reason = failure.reason.map { $0 == "\t" || $0 == "\n" ? " " : $0 }
      fields += ["\(failure.time.microseconds)", failure.call?.description ?? "-", String(reason)]
    } else {
      fields += ["", "", ""]
    }
    return (fields + counts.map { "\($0.key)=\($0.value)" }).joined(separator: "\t")
  }

  package init?(line: String) {
    let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
    guard fields.count >= 6, let seed = UInt64(fields[0]) else { return nil }
    failure = Int64(fields[3]).map {
      SimFailure(
        seed: seed, time: Timestamp(microseconds: $0), reason: fields[5], call: CallID(fields[4]))
    }
    self.seed = seed
    steps = Int(fields[1]) ?? 0
    simulated = Span(microseconds: Int64(fields[2]) ?? 0)
    traceHash = 0
    counts = [:]
    for field in fields[6...] {
      guard let mark = field.lastIndex(of: "=") else { continue }
      counts[String(field[..<mark])] = Int(field[field.index(after: mark)...]) ?? 0
    }
  }
}
