import ArgumentParser
import Foundation

struct SummaryCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "summary", abstract: "Shows what callgrind counted.")

  @Option(help: "What callgrind counted of the edge.") var edge: String
  @Option(help: "What callgrind counted of the coordinator.") var coordinator: String
  @Option(help: "How many calls it counted.") var calls: Int
  @Option(
    parsing: .upToNextOption, help: "The allocations of the edge and of the coordinator.")
  var allocations: [Int]
  @Option(help: "Figures to compare with, as this prints them at its end.") var baseline: String?

  /// More than this, in percent, is reported as worse. The same build differs by less than one.
  private static let tolerance = 3.0

  func validate() throws {
    guard calls > 0, allocations.count == 2 else {
      throw ValidationError("Name a number of calls and the allocations of two roles.")
    }
  }

  func run() throws {
    let roles = try [edge, coordinator].map {
      CallgrindFile(text: try String(contentsOfFile: $0, encoding: .utf8))
    }
    print(table(roles))
    let figures = self.figures(roles)
    for (name, value) in figures { print(name, value) }
    guard let baseline else { return }
    let worse = try compare(figures, String(contentsOfFile: baseline, encoding: .utf8))
    guard worse.isEmpty else {
      print("WORSE than \(baseline): \(worse.joined(separator: ", "))")
      throw ExitCode(1)
    }
  }

  private func table(_ roles: [CallgrindFile]) -> String {
    func row(_ name: String, _ values: [Int]) -> String {
      let numbers = (values + [values.reduce(0, +)]).map { value in
        let text = "\(value / calls)"
        return String(repeating: " ", count: max(0, 13 - text.count)) + text
      }
      return name.padding(toLength: 29, withPad: " ", startingAt: 0) + numbers.joined() + "\n"
    }
    var text = "instructions of a call                edge  coordinator        total\n"
    for owner in Owner.allCases {
      text += row(owner.rawValue, roles.map { $0.byOwner[owner] ?? 0 })
    }
    text += row("all", roles.map(\.instructions))
    text += row("  of them codec", roles.map(\.wire))
    text += row("  of them rules of calls", roles.map(\.rules))
    text += row("allocations", allocations)
    return text
  }

  private func figures(_ roles: [CallgrindFile]) -> [(name: String, value: Int)] {
    let (edge, coordinator) = (roles[0], roles[1])
    let wire = edge.wire + coordinator.wire
    let total = edge.instructions + coordinator.instructions
    return [
      ("instructions_per_call", total),
      ("instructions_per_call.edge", edge.instructions - edge.wire),
      (
        "instructions_per_call.worker",
        coordinator.instructions - coordinator.wire - coordinator.rules
      ),
      ("instructions_per_call.rules", coordinator.rules),
      ("instructions_per_call.wire", wire),
      ("allocations_per_call", allocations[0] + allocations[1]),
      ("allocations_per_call.edge", allocations[0]),
      ("allocations_per_call.coordinator", allocations[1]),
    ].map { ($0.0, $0.1 / calls) }
  }

  /// - Returns: the totals that have become worse, with by how much.
  private func compare(_ figures: [(name: String, value: Int)], _ baseline: String) -> [String] {
    let before = Dictionary(
      baseline.split(separator: "\n").compactMap { line -> (String, Double)? in
        let parts = line.split(separator: " ")
        guard parts.count == 2, let value = Double(parts[1]) else { return nil }
        return (String(parts[0]), value)
      }, uniquingKeysWith: { $1 })
    return figures.compactMap { name, value in
      guard !name.contains("."), let old = before[name], old > 0 else { return nil }
      let change = (Double(value) / old - 1) * 100
      return change > Self.tolerance
        ? "\(name) \(Int(old)) -> \(value) (+\(Int(change.rounded())) %)" : nil
    }
  }
}
