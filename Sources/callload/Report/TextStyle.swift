/// Whether and how text is coloured.
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
