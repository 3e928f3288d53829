/// A table in plain text: columns as wide as their widest cell, two spaces apart.
public enum TextColumns {
  /// - Parameter isRight: whether the column of this number is aligned to the right.
  public static func lines(_ rows: [[String]], isRight: (Int) -> Bool) -> [String] {
    var widths: [Int] = []
    for row in rows {
      for (column, cell) in row.enumerated() {
        if column == widths.count { widths.append(0) }
        widths[column] = max(widths[column], cell.count)
      }
    }
    return rows.map { row in
      let cells = row.enumerated().map { column, cell in
        let space = String(repeating: " ", count: widths[column] - cell.count)
        return isRight(column) ? space + cell : cell + space
      }
      var line = cells.joined(separator: "  ")
      while line.last == " " { line.removeLast() }
      return line
    }
  }
}
