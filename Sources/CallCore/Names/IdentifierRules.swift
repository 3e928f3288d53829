/// The rules for ids of users, devices and apps: the one place for tokens, frames, HTTP, pushes and tools.
///
/// An id is shown to operators and to other users, so two different ids must not look the same because of
/// something invisible. Refused are, whatever the length allows:
///
/// - control characters (Cc), separators of lines and paragraphs (Zl, Zp);
/// - format characters (Cf): among them those that change the direction of text, zero-width space and joiners,
///   the soft hyphen, tags;
/// - all else that Unicode calls ignorable by default: variation selectors, fillers of Hangul,
///   U+034F; and U+2800, a Braille pattern without a dot;
/// - white space, but for single U+0020 between other characters.
///
/// Characters that Unicode has not assigned yet are let through, so that nodes of two versions agree on
/// names in new scripts. So are letters of two scripts that look alike (`a` of Latin and of Cyrillic): the app that
/// gives out ids must keep these apart.
public enum IdentifierRules {
  public static let userBytes = 1...128
  public static let deviceBytes = 1...64
  public static let appBytes = 1...64

  public static func isUser(_ text: String) -> Bool {
    userBytes.contains(text.utf8.count) && isVisible(text)
  }

  public static func isDevice(_ text: String) -> Bool {
    deviceBytes.contains(text.utf8.count) && isVisible(text)
  }

  /// Apps name configuration and stand in keys: letters, digits, `.`, `_` and `-`.
  public static func isApp(_ text: String) -> Bool {
    appBytes.contains(text.utf8.count)
      && text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "._-".utf8.contains($0) }
  }

  /// Whether every character of a text can be seen, and stands where it is.
  private static func isVisible(_ text: String) -> Bool {
    // The place before the start counts as a space: no space may follow it.
    var former: Unicode.Scalar = " "
    for scalar in text.unicodeScalars {
      guard isVisible(scalar), scalar != " " || former != " " else { return false }
      former = scalar
    }
    return former != " "
  }

  private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
    if scalar.isASCII { return (0x20..<0x7f).contains(scalar.value) }
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .spaceSeparator, .surrogate:
      return false
    case .unassigned
    where scalar.value & 0xfffe == 0xfffe || (0xfdd0...0xfdef).contains(scalar.value):
      // No character, now or ever.
      return false
    default: return !scalar.properties.isDefaultIgnorableCodePoint && scalar != "\u{2800}"
    }
  }
}
