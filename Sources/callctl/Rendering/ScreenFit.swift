internal import Glibc

/// The size of a terminal, in characters.
package struct TerminalSize: Sendable, Equatable {
  package var rows: Int
  package var columns: Int
  package init(rows: Int, columns: Int) {
    self.rows = rows
    self.columns = columns
  }

  /// The present size; nil where standard output is no terminal, or one that does not report its size.
  static var ofStandardOutput: TerminalSize? {
    var size = winsize()
    guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0, size.ws_col > 0
    else { return nil }
    return TerminalSize(rows: Int(size.ws_row), columns: Int(size.ws_col))
  }
}

/// Cuts a screen to the size of a terminal, and says what it cut.
///
/// A terminal scrolls when it receives more lines than it has. Then the top is lost, which has the problems.
package enum ScreenFit {
  package typealias Section = (name: String, lines: [String])

  /// The first lines that fit, no line wider than the terminal. The last line is left free for the cursor.
  package static func lines(_ sections: [Section], _ size: TerminalSize) -> [String] {
    let all = sections.flatMap(\.lines)
    let room = max(1, size.rows - 1)
    guard all.count > room else { return all.map { cut($0, columns: size.columns) } }
    let shown = room - 1
    var begin = 0
    var names: [String] = []
    for section in sections {
      begin += section.lines.count
      if begin > shown, !section.lines.isEmpty { names.append(section.name) }
    }
    let note =
      "… \(Figures.counted(all.count - shown, "more line")): \(names.joined(separator: ", "))"
    return (all.prefix(shown) + [note]).map { cut($0, columns: size.columns) }
  }

  /// Breaks a line at spaces into lines that fit; the further ones are indented by four.
  /// - Parameter columns: nil: the line is not broken.
  package static func wrapped(_ line: String, columns: Int?) -> [String] {
    guard let columns, line.count > columns, columns > 20 else { return [line] }
    var lines: [String] = []
    var rest = Substring(line)
    var indent = ""
    while indent.count + rest.count > columns {
      let room = columns - indent.count
      let piece = rest.prefix(room + 1)
      // A word longer than a line is broken. The indentation of the first line is no place to break.
      let start = piece.firstIndex { $0 != " " && $0 != "!" } ?? piece.startIndex
      let space = piece[start...].lastIndex(of: " ")
      let end = space ?? rest.index(rest.startIndex, offsetBy: room)
      lines.append(indent + rest[..<end])
      rest = rest[end...].drop { $0 == " " }
      indent = "    "
    }
    return rest.isEmpty ? lines : lines + [indent + rest]
  }

  /// Cuts a line to so many visible characters; "…" stands for what is cut. Colors count nothing.
  package static func cut(_ line: String, columns: Int) -> String {
    guard visibleCount(line) > columns else { return line }
    var out = ""
    var visible = 0
    var isInEscape = false
    for character in line {
      if character == "\u{1B}" { isInEscape = true }
      if !isInEscape {
        if visible == columns - 1 { break }
        visible += 1
      }
      out.append(character)
      if character == "m" { isInEscape = false }
    }
    return out + "…" + (out.contains("\u{1B}") ? "\u{1B}[0m" : "")
  }

  private static func visibleCount(_ text: String) -> Int {
    var isInEscape = false
    return text.count { character in
      if character == "\u{1B}" { isInEscape = true }
      defer { if character == "m" { isInEscape = false } }
      return !isInEscape
    }
  }
}
