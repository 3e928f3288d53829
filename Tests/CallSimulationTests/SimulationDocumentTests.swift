import CallJudge
import CallSimulation
import Foundation
import Testing

/// docs/simulation.md names what there is.
@Suite struct SimulationDocumentTests {
  private func text() throws -> String {
    let path = URL(filePath: #filePath).appending(path: "../../../docs/simulation.md")
    return try String(contentsOf: path.standardized, encoding: .utf8)
  }

  @Test func theTableOfSabotagesIsThatOfTheCode() throws {
    let text = try text()
    let start = try #require(text.range(of: "\n| sabotage |"))
    let table = text[start.upperBound...].components(separatedBy: "\n\n")[0]
    let rows = table.components(separatedBy: "\n").dropFirst(2)
    let expected = Sabotage.allCases.map { sabotage in
      let facts = sabotage.facts
      let isUsual = facts.intensity == .usual && facts.seeds == 20
      return [
        sabotage.name, facts.summary, facts.seam.rawValue, facts.rule?.rawValue ?? "",
        isUsual ? "" : "\(facts.seeds) \(facts.intensity.rawValue)",
      ].map { $0.isEmpty ? "| " : "| \($0) " }.joined() + "|"
    }
    #expect(Array(rows) == expected)
  }
}
