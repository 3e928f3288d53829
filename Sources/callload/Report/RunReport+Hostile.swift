/// The report's part on attacks.
extension RunReport {
  func hostileLines(_ style: TextStyle) -> [String] {
    guard let quiet = hostile.first else { return [] }
    let aim = HostileAim(quiet: quiet)
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
    for row in hostile {
      func time(_ value: UInt64?) -> String { value.map { Units.time(microseconds: $0) } ?? "–" }
      func memory(_ role: ProcessRole) -> String { row.memoryBytes(role).map(Units.bytes) ?? "–" }
      table.rows.append([
        row.name, time(row.ringP50), time(row.ringP99), Units.count(row.failureCount),
        memory(.edge), memory(.coordinator), memory(.nats),
        row.recoveredSeconds.map { Units.duration(seconds: $0) } ?? "–",
        row.accounts.isEmpty ? "" : Units.count(row.attempts),
      ])
    }
    let rows = table.lines()
    lines.append(rows[0])
    for (row, line) in zip(hostile, rows.dropFirst()) {
      let problems = aim.problems(row)
      lines.append(problems.isEmpty ? line : style.bad(line))
      lines += details(row, problems)
    }
    return lines
  }

  private func details(_ row: HostileRow, _ problems: [String]) -> [String] {
    var lines: [String] = []
    if !problems.isEmpty { lines.append("      misses: " + problems.joined(separator: ", ")) }
    for (cause, count) in row.failures.sorted(by: { ($1.value, $0.key) < ($0.value, $1.key) }) {
      lines.append("      \(cause): \(Units.count(count))")
    }
    for attack in Attack.allCases {
      guard let account = row.accounts[attack] else { continue }
      let name = row.accounts.count > 1 ? "\(attack.rawValue): " : ""
      lines.append("      \(name)\(account.line(attack.facts.unit))")
    }
    return lines
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
    let answers = answers.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
      .map { "\($0.key) \(Units.count($0.value))" }
    if !answers.isEmpty { parts.append("answers: " + answers.joined(separator: ", ")) }
    return parts.joined(separator: ", ")
  }
}

extension JSONReport {
  /// One row of `hostile`.
  package struct Hostile: Codable {
    package struct Ring: Codable {
      package var p50: UInt64?
      package var p99: UInt64?
    }
    package struct Latencies: Codable { package var ring: Ring }
    package var ok: Bool
    package var problems: [String]
    package var calls: Int
    package var latency: Latencies
    package var failures: Int
    package var failuresByCause: [String: Int]
    package var memoryBytes: [String: UInt64]
    package var recoveredSeconds: Double?
    package var attacks: [String: AttackAccount]
    enum CodingKeys: String, CodingKey {
      case ok, problems, calls, failures, attacks
      case latency = "latency_us"
      case failuresByCause = "failures_by_cause"
      case memoryBytes = "memory_bytes"
      case recoveredSeconds = "recovered_seconds"
    }

    init(_ row: HostileRow, _ aim: HostileAim) {
      problems = aim.problems(row)
      ok = problems.isEmpty
      calls = row.calls
      latency = Latencies(ring: Ring(p50: row.ringP50, p99: row.ringP99))
      failures = row.failureCount
      failuresByCause = row.failures
      memoryBytes = [:]
      for role in ProcessRole.allCases { memoryBytes[role.rawValue] = row.memoryBytes(role) }
      recoveredSeconds = row.recoveredSeconds
      attacks = Dictionary(
        uniqueKeysWithValues: row.accounts.map { ($0.key.rawValue, $0.value) })
    }
  }

  /// Nothing without `--hostile`.
  static func hostile(_ rows: [HostileRow]) -> [String: Hostile]? {
    guard let quiet = rows.first else { return nil }
    let aim = HostileAim(quiet: quiet)
    return Dictionary(uniqueKeysWithValues: rows.map { ($0.name, Hostile($0, aim)) })
  }
}
