/// Aligned columns of text: the first to the left, all others to the right.
package struct TextTable {
  package var rows: [[String]]
  private let indent: Int
  private static let gap = "  "

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
    let columns = 0..<(rows.map(\.count).max() ?? 0)
    let widths = columns.map { column in
      rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
    }
    return rows.map { row in
      let cells = row.enumerated().map { column, cell in
        let padding = String(repeating: " ", count: widths[column] - cell.count)
        return column == 0 ? cell + padding : padding + cell
      }
      var line = String(repeating: " ", count: indent) + cells.joined(separator: Self.gap)
      while line.last == " " { line.removeLast() }
      return line
    }
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
