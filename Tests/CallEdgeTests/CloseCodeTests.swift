import CallEdge
import Foundation
import Testing

@Suite struct CloseCodeTests {
  @Test func everyCodeStandsInTheTable() throws {
    let path = URL(filePath: #filePath).appending(path: "../../../docs/device-protocol.md")
    let text = try String(contentsOf: path.standardized, encoding: .utf8)
    let table = try #require(text.components(separatedBy: "## Close codes\n").last)
    for reason in CloseReason.allCases {
      #expect(table.contains("\n| \(reason.rawValue) |"), "missing: \(reason.rawValue)")
    }
  }
}
