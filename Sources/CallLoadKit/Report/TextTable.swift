import CallTelemetry

/// Aligned columns of text: the first to the left, all others to the right.
package struct TextTable {
  package var rows: [[String]]
  private let indent: Int

  package init(_ header: [String] = [], indent: Int = 2) {
    rows = header.isEmpty ? [] : [header]
    self.indent = indent
  }

  /// A row for each count, the greatest first.
  init(_ counts: [String: Int], indent: Int = 2) {
    self.init(indent: indent)
    for (name, count) in counts.greatestFirst { add(name, Units.count(count)) }
  }

  package mutating func add(_ cells: String...) { rows.append(cells) }

  package func lines() -> [String] {
    let margin = String(repeating: " ", count: indent)
    return TextColumns.lines(rows) { $0 > 0 }.map { $0.isEmpty ? $0 : margin + $0 }
  }
}

extension [String: Int] {
  /// By count, the greatest first; equal ones by name.
  var greatestFirst: [(key: String, value: Int)] {
    sorted { ($1.value, $0.key) < ($0.value, $1.key) }
  }
}

package struct TextStyle: Sendable, Equatable {
  package var usesColor: Bool
  package static let plain = TextStyle(usesColor: false)
  package static let colored = TextStyle(usesColor: true)

  package func bold(_ text: String) -> String { wrap(text, "1") }
  package func good(_ text: String) -> String { wrap(text, "32") }
  package func bad(_ text: String) -> String { wrap(text, "1;31") }

  private func wrap(_ text: String, _ code: String) -> String {
    usesColor ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
  }
}
