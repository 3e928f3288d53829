package import CallHostile
package import CallProcesses

package struct HostilePlan: Sendable, Equatable {
  package struct Round: Sendable, Equatable {
    /// The name in the report: an attack's name, or `all`.
    package var name: String
    package var attacks: [Attack]
  }
  package var rounds: [Round]
  package var attackSeconds: Double
  /// The normal load continues for this time after each attack.
  package var recoverySeconds: Double

  package static let together = "all"
  package static let inTurn = "each"
  package static let recoverySecondsMax: Double = 10

  /// - Parameter words: names of attacks, `each` or `all`; several by commas.
  /// - Throws: ``SetupError`` that names the word and the remedy.
  package init(_ words: [String], attackSeconds: Double, recoverySeconds: Double) throws {
    self.attackSeconds = attackSeconds
    self.recoverySeconds = recoverySeconds
    rounds = []
    for word in words.flatMap({ $0.split(separator: ",").map(String.init) }) {
      for round in try Self.rounds(word) where !rounds.contains(round) { rounds.append(round) }
    }
  }

  var needsOtherApp: Bool { rounds.contains { $0.attacks.contains(.appFlood) } }

  private static func rounds(_ word: String) throws -> [Round] {
    switch word {
    case together: return [Round(name: together, attacks: Attack.allCases)]
    case inTurn: return Attack.allCases.map { Round(name: $0.rawValue, attacks: [$0]) }
    default:
      guard let attack = Attack(rawValue: word) else {
        let known = Attack.allCases.map(\.rawValue).joined(separator: ", ")
        throw SetupError("--hostile \(word): no such attack; there are \(known), each, all")
      }
      return [Round(name: word, attacks: [attack])]
    }
  }
}

package struct HostileRow: Sendable, Equatable {
  /// `quiet`, an attack's name, or `all`.
  package var name: String
  package var calls = 0
  /// Microseconds, of the calls that were due during the attack; nil where none rang.
  package var ringP50: UInt64?
  package var ringP99: UInt64?
  /// Failures of the normal load, by cause, including ended servers.
  package var failures: [String: Int] = [:]
  package var peaks: [NodePeak] = []
  /// Seconds from the attack's end until rings were within the aim; nil where the load ended before.
  package var recoveredSeconds: Double?
  package var accounts: [Attack: AttackAccount] = [:]

  package static let quiet = "quiet"

  package init(name: String) { self.name = name }

  package var failureCount: Int { failures.values.reduce(0, +) }
  package var attempts: Int { accounts.values.reduce(0) { $0 + $1.attempts } }

  package func memoryBytes(_ role: ProcessRole) -> UInt64? {
    peaks.filter { $0.role == role }.map(\.bytes).max()
  }
}

package struct NodePeak: Sendable, Equatable {
  package var role: ProcessRole
  package var name: String
  package var bytes: UInt64
  package init(role: ProcessRole, name: String, bytes: UInt64) {
    self.role = role
    self.name = name
    self.bytes = bytes
  }
}

/// The limits of the normal load beside an attack, set by the same load without one.
package struct HostileAim: Sendable, Equatable {
  /// Microseconds.
  package var ringP99Max: UInt64
  package var memoryMax: [ProcessRole: UInt64]

  package init(quiet: HostileRow) {
    ringP99Max = max(10_000, 2 * (quiet.ringP99 ?? 0))
    memoryMax = [:]
    for role in ProcessRole.allCases { memoryMax[role] = quiet.memoryBytes(role).map { 2 * $0 } }
  }

  package func problems(_ row: HostileRow) -> [String] {
    var problems: [String] = []
    if row.failureCount > 0 { problems.append("\(Units.count(row.failureCount)) failures") }
    if let p99 = row.ringP99 {
      if p99 > ringP99Max {
        problems.append("ring p99 above \(Units.time(microseconds: ringP99Max))")
      }
    } else {
      problems.append("nothing rang")
    }
    for role in ProcessRole.allCases {
      guard let bytes = row.memoryBytes(role), let most = memoryMax[role], bytes > most else {
        continue
      }
      problems.append("\(role.rawValue) memory above \(Units.bytes(most))")
    }
    if row.recoveredSeconds.map({ $0 > HostilePlan.recoverySecondsMax }) ?? true {
      problems.append("not back to quiet in time")
    }
    let idle = row.accounts.filter { $0.value.attempts == 0 }.map(\.key.rawValue).sorted()
    if !idle.isEmpty { problems.append("\(idle.joined(separator: ", ")) did nothing") }
    if row.name != HostileRow.quiet, row.accounts.isEmpty {
      problems.append("the attackers left no account")
    }
    return problems
  }

  /// Seconds from the attack's end (`from`) until at most one ring in ten of any second is above the aim.
  package func recovery(_ rings: [RingSample], from: Double, until: Double) -> Double? {
    var counts: [Int: (all: Int, slow: Int)] = [:]
    for ring in rings where ring.dueSeconds >= from && ring.dueSeconds < until {
      let second = Int(ring.dueSeconds - from)
      counts[second, default: (0, 0)].all += 1
      if ring.microseconds > ringP99Max { counts[second, default: (0, 0)].slow += 1 }
    }
    guard let lastSlow = counts.filter({ $0.value.slow * 10 > $0.value.all }).keys.max() else {
      return 0
    }
    // A slow last second leaves the end of the recovery unknown.
    return counts.keys.contains { $0 > lastSlow } ? Double(lastSlow + 1) : nil
  }
}

extension [RingSample] {
  /// A percentile of the rings that were due before a time, in microseconds.
  package func percentile(_ share: Double, before seconds: Double) -> UInt64? {
    let sorted = filter { $0.dueSeconds < seconds }.map(\.microseconds).sorted()
    guard !sorted.isEmpty else { return nil }
    return sorted[Swift.min(sorted.count - 1, Int(Double(sorted.count) * share))]
  }
}
