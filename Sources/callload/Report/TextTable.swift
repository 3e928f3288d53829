/// Columns of text that line up: the first to the left, all others to the right.
package struct TextTable {
  package var rows: [[String]] = []
  /// Spaces before each line.
  package var indent = 2
  private static let gap = 2

  package init(_ header: [String] = [], indent: Int = 2) {
    if !header.isEmpty { rows.append(header) }
    self.indent = indent
  }

  /// A row for each count, the greatest first.
  init(_ counts: [String: Int], indent: Int = 2) {
    self.indent = indent
    for (name, count) in counts.greatestFirst { add(name, Units.count(count)) }
  }

  package mutating func add(_ cells: String...) { rows.append(cells) }

  package func lines() -> [String] {
    var widths: [Int] = []
    for row in rows {
      for (column, cell) in row.enumerated() {
        if column == widths.count { widths.append(0) }
        widths[column] = max(widths[column], cell.count)
      }
    }
    return rows.map { row in
      var line = String(repeating: " ", count: indent)
      for (column, cell) in row.enumerated() {
        let padding = String(repeating: " ", count: widths[column] - cell.count)
        if column > 0 { line += String(repeating: " ", count: Self.gap) }
        line += column == 0 ? cell + padding : padding + cell
      }
      while line.last == " " { line.removeLast() }
      return line
    }
  }
}

extension [String: Int] {
  /// By count, the greatest first; those alike by name.
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
