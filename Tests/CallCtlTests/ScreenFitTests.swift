import Testing
import callctl

/// `callctl status --watch` in a terminal that is too small for it.
@Suite struct ScreenFitTests {
  private static let sections: [ScreenFit.Section] = [
    ("problems", ["healthy", "! one"]), ("nodes", ["NODE", "a", "b"]), ("pushes", []),
    ("latency", ["p50"]),
  ]

  private func lines(rows: Int, columns: Int = 80) -> [String] {
    ScreenFit.lines(Self.sections, TerminalSize(rows: rows, columns: columns))
  }

  @Test func whatFitsIsLeftAlone() {
    #expect(lines(rows: 7) == ["healthy", "! one", "NODE", "a", "b", "p50"])
  }

  @Test func theTopStaysAndTheLastLineSaysWhatIsCut() {
    #expect(lines(rows: 6) == ["healthy", "! one", "NODE", "a", "… 2 more lines: nodes, latency"])
    #expect(lines(rows: 4) == ["healthy", "! one", "… 4 more lines: nodes, latency"])
    #expect(lines(rows: 1).count == 1, "one line and the cursor")
    for rows in 2...7 { #expect(lines(rows: rows).count <= rows - 1) }
  }

  @Test func linesAreCutToTheWidth() {
    #expect(ScreenFit.cut("12345", columns: 5) == "12345")
    #expect(ScreenFit.cut("123456", columns: 5) == "1234…")
    #expect(lines(rows: 3, columns: 10).map(\.count) == [7, 10])
  }

  /// Colors take no room, and end with what they color.
  @Test func colorsCountNothing() {
    let red = "a\u{1B}[31;1mbcd\u{1B}[0m"
    #expect(ScreenFit.cut(red, columns: 4) == red)
    #expect(ScreenFit.cut(red, columns: 3) == "a\u{1B}[31;1mb…\u{1B}[0m")
  }

  /// A problem says what to do at its end, so it is not cut.
  @Test func problemsAreWrapped() {
    let line = "  ! No edge serves: start one, and read its log for the reason."
    #expect(
      ScreenFit.wrapped(line, columns: 30) == [
        "  ! No edge serves: start one,", "    and read its log for the", "    reason.",
      ])
    #expect(ScreenFit.wrapped(line, columns: nil) == [line])
    #expect(ScreenFit.wrapped(line, columns: 200) == [line])
    let word = "  ! " + String(repeating: "x", count: 70)
    let wrapped = ScreenFit.wrapped(word, columns: 30)
    #expect(wrapped.allSatisfy { $0.count <= 30 })
    #expect(wrapped.joined().filter { $0 == "x" }.count == 70)
  }
}
