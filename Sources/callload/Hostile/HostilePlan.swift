/// What `--hostile` and `--apps` ask for.
package struct HostilePlan: Sendable, Equatable {
  /// A run of the normal load with attacks beside it.
  package struct Round: Sendable, Equatable {
    /// Of the report: an attack's name, or `all`.
    package var name: String
    package var attacks: [Attack]
  }
  package var rounds: [Round]
  package var attackSeconds: Double
  /// How long the normal load goes on after each attack.
  package var recoverySeconds: Double

  package static let together = "all"
  package static let inTurn = "each"
  package static let recoverySecondsMax: Double = 10

  /// - Parameter words: names of attacks, `each` or `all`; several by commas.
  /// - Throws: ``SetupError`` that names the word and what would do.
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
