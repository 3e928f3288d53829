package import CallJudge

/// The findings of a run whose journal was read.
package struct JournalFindings: Sendable {
  package var records = 0
  /// How often records were purged before they were read.
  package var gaps = 0
  package var judged: [HistoryRule: Int] = [:]
  package private(set) var violations: [HistoryRule: Int] = [:]
  package private(set) var examples: [HistoryRule: [String]] = [:]
  /// Why the run, or the rest of it, was not judged; nil: it was.
  package var problem: String?

  private static let examplesMost = 3

  package init() {}

  /// - Parameter story: the lines of the call's story.
  mutating func add(_ violation: HistoryViolation, story: [String]) {
    violations[violation.rule, default: 0] += 1
    guard examples[violation.rule, default: []].count < Self.examplesMost else { return }
    let call = violation.call.map { "call \($0): " } ?? ""
    examples[violation.rule, default: []].append(
      ([call + violation.reason] + story.map { "  " + $0 }).joined(separator: "\n"))
  }
}

struct JournalReport {
  let findings: JournalFindings

  var json: JSONObject {
    [
      "records": findings.records, "gaps": findings.gaps,
      "judged": JSONObject(findings.judged.map { ($0.key.rawValue, $0.value) }),
      "violations": JSONObject(
        HistoryRule.allCases.compactMap { rule in
          findings.violations[rule].map { (rule.rawValue, $0) }
        }), "problem": findings.problem,
    ]
  }

  func lines(_ style: TextStyle) -> [String] {
    var lines = [
      "",
      style.bold("Journal")
        + "  \(Units.count(findings.records)) records, judged with what devices received",
    ]
    if let problem = findings.problem { lines.append(style.bad("  not judged: \(problem)")) }
    if findings.gaps > 0 {
      lines.append("  \(Units.count(findings.gaps)) times records were gone before they were read")
    }
    if findings.violations.isEmpty, findings.problem == nil {
      lines.append("  every rule was kept")
    }
    for rule in HistoryRule.allCases {
      guard let count = findings.violations[rule] else { continue }
      lines.append(style.bad("  broken: \(rule.rawValue): \(Units.count(count))"))
      lines += (findings.examples[rule] ?? []).flatMap { example in
        example.split(separator: "\n").map { "    " + $0 }
      }
    }
    return lines
  }

  var problems: [String] {
    HistoryRule.allCases.compactMap { rule in
      findings.violations[rule].map { "\(rule.rawValue): \(Units.count($0))" }
    } + (findings.problem.map { ["the journal was not judged: \($0)"] } ?? [])
  }
}
