/// Columns of text that line up: the first to the left, all others to the right.
package struct TextTable {
  package var rows: [[String]] = []
  /// Spaces before each line.
  package var indent = 2
  package var gap = 2

  package init(_ header: [String] = []) {
    if !header.isEmpty { rows.append(header) }
  }

  package mutating func add(_ cells: String...) { rows.append(cells) }

  /// The lines, without spaces at their ends.
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
        if column > 0 { line += String(repeating: " ", count: gap) }
        line += column == 0 ? cell + padding : padding + cell
      }
      while line.last == " " { line.removeLast() }
      return line
    }
  }
}
