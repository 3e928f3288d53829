import CallSimulation
import Foundation
import Testing

/// docs/simulation.md names what there is.
@Suite struct SimulationDocumentTests {
  private func text() throws -> String {
    let path = URL(filePath: #filePath).appending(path: "../../../docs/simulation.md")
    return try String(contentsOf: path.standardized, encoding: .utf8)
  }

  @Test func everySabotageIsNamed() throws {
    let text = try text()
    let start = try #require(text.range(of: "\nThe sabotages are "))
    let list = text[start.upperBound...].components(separatedBy: "\n\n")[0]
    let named = list.matches(of: /[a-z]+(?:-[a-z]+)+/).map { String($0.output) }
    #expect(named.count == Set(named).count)
    #expect(Set(named) == Set(Sabotage.allCases.map(\.rawValue)))
  }
}
