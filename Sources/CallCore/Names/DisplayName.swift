/// Names of people, as an app's server writes them into tokens: shown to others, and never compared.
public enum DisplayName {
  public static let bytesMax = 128

  /// The text's first whole characters, of at most `bytesMax` bytes, without controls, separators of lines, and
  /// whatever turns the text around it. A longer name is no reason to refuse a token.
  public static func shown(_ text: String) -> String {
    var name = ""
    for character in text {
      let scalars = character.unicodeScalars.filter(isShown)
      guard !scalars.isEmpty else { continue }
      let shown = String(String.UnicodeScalarView(scalars))
      guard name.utf8.count + shown.utf8.count <= bytesMax else { break }
      name += shown
    }
    return name
  }

  private static func isShown(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0..<0x20, 0x7f..<0xa0, 0x2028, 0x2029: false
    // Unicode Standard Annex 9, 2: the marks, embeddings, overrides and isolates of bidirectional text.
    case 0x061c, 0x200e, 0x200f, 0x202a...0x202e, 0x2066...0x2069: false
    default: true
    }
  }
}
