import CallHostile
import CallProcesses

struct HostileReport {
  let rows: [HostileRow]
  let aim: HostileAim

  /// nil without `--hostile`.
  init?(_ rows: [HostileRow]) {
    guard let quiet = rows.first else { return nil }
    self.rows = rows
    aim = HostileAim(quiet: quiet)
  }

  /// Phrases about the runs that miss the aim.
  var problems: [String] {
    rows.dropFirst().compactMap { row in
      let missed = aim.problems(row)
      return missed.isEmpty ? nil : "\(row.name): " + missed.joined(separator: ", ")
    }
  }

  func lines(_ style: TextStyle) -> [String] {
    var lines = [
      "",
      style.bold("Hostile") + "  the normal load beside attackers; all above is of the quiet run",
      "  aim: no failure, ring p99 at most \(Units.time(microseconds: aim.ringP99Max)), no node "
        + "beyond twice its quiet memory, quiet again within "
        + Units.duration(seconds: HostilePlan.recoverySecondsMax),
    ]
    var table = TextTable([
      "attack", "ring p50", "ring p99", "failures", "edge", "coordinator", "nats", "recovered",
      "attempts",
    ])
    for row in rows {
      func time(_ value: UInt64?) -> String { value.map { Units.time(microseconds: $0) } ?? "–" }
      func memory(_ role: ProcessRole) -> String { row.memoryBytes(role).map(Units.bytes) ?? "–" }
      table.add(
        row.name, time(row.ringP50), time(row.ringP99), Units.count(row.failureCount),
        memory(.edge), memory(.coordinator), memory(.nats),
        row.recoveredSeconds.map { Units.duration(seconds: $0) } ?? "–",
        row.accounts.isEmpty ? "" : Units.count(row.attempts))
    }
    let rendered = table.lines()
    lines.append(rendered[0])
    for (row, line) in zip(rows, rendered.dropFirst()) {
      let problems = aim.problems(row)
      lines.append(problems.isEmpty ? line : style.bad(line))
      lines += details(row, problems)
    }
    return lines
  }

  private func details(_ row: HostileRow, _ problems: [String]) -> [String] {
    var lines: [String] = []
    if !problems.isEmpty { lines.append("      misses: " + problems.joined(separator: ", ")) }
    for (cause, count) in row.failures.greatestFirst {
      lines.append("      \(cause): \(Units.count(count))")
    }
    for attack in Attack.allCases {
      guard let account = row.accounts[attack] else { continue }
      let name = row.accounts.count > 1 ? "\(attack.rawValue): " : ""
      lines.append("      \(name)\(account.line(attack.facts.unit))")
    }
    return lines
  }

  /// By name: `quiet` and the attacks.
  var json: JSONObject {
    JSONObject(
      rows.map { row in
        let problems = aim.problems(row)
        let memory = ProcessRole.allCases.compactMap { role in
          row.memoryBytes(role).map { (role.rawValue, $0 as any Encodable) }
        }
        let fields: JSONObject = [
          "ok": problems.isEmpty, "problems": problems, "calls": row.calls,
          "latency_us": ["ring": ["p50": row.ringP50, "p99": row.ringP99] as JSONObject]
            as JSONObject,
          "failures": row.failureCount, "failures_by_cause": row.failures,
          "memory_bytes": JSONObject(memory), "recovered_seconds": row.recoveredSeconds,
          "attacks": JSONObject(row.accounts.map { ($0.key.rawValue, $0.value) }),
        ]
        return (row.name, fields)
      })
  }
}

extension AttackAccount {
  fileprivate func line(_ unit: String) -> String {
    var parts = [
      "\(Units.count(attempts)) \(unit)", "\(Units.count(connections)) connections opened",
    ]
    if connectionsFailed > 0 { parts.append("\(Units.count(connectionsFailed)) not opened") }
    if connectionsClosed > 0 {
      parts.append("\(Units.count(connectionsClosed)) closed by the edge")
    }
    if bytesSent > 0 { parts.append("\(Units.bytes(UInt64(bytesSent))) sent") }
    let answers = answers.greatestFirst.map { "\($0.key) \(Units.count($0.value))" }
    if !answers.isEmpty { parts.append("answers: " + answers.joined(separator: ", ")) }
    return parts.joined(separator: ", ")
  }
}
