import CallCore
import Testing

/// Which ids are taken. docs/device-protocol.md has the rule for readers.
@Suite struct IdentifierRuleTests {
  @Test(arguments: [
    "ann", "+44 20 7946 0958", "ann@example.org", "Zo\u{eb}", "zoe\u{308}", "\u{212a}", "Иван",
    "李雷", "ｱﾝ", "سلمى", "אבי", "नेहा", "안나", "\u{1f600}", "a b c",
    "~!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}",
    // A character of a script that is yet to come.
    "a\u{3fff0}b",
  ])
  func taken(_ text: String) {
    #expect(IdentifierRules.isUser(text))
    #expect(IdentifierRules.isDevice(text))
  }

  /// Invisible characters, in the middle of a name, at its ends, and alone.
  @Test(arguments: [
    // Control characters, and what ends lines.
    "\0", "\u{1}", "\t", "\n", "\r", "\u{7f}", "\u{80}", "\u{85}", "\u{9f}", "\u{2028}", "\u{2029}",
    // Characters that turn text around.
    "\u{200e}", "\u{200f}", "\u{61c}", "\u{202a}", "\u{202b}", "\u{202c}", "\u{202d}", "\u{202e}",
    "\u{2066}", "\u{2067}", "\u{2068}", "\u{2069}",
    // Characters of no width.
    "\u{ad}", "\u{200b}", "\u{200c}", "\u{200d}", "\u{2060}", "\u{2064}", "\u{feff}", "\u{fff9}",
    "\u{e0001}", "\u{e0041}", "\u{1d173}",
    // Ignorable, fillers, selectors.
    "\u{34f}", "\u{115f}", "\u{1160}", "\u{17b4}", "\u{180b}", "\u{180e}", "\u{3164}", "\u{ffa0}",
    "\u{fe00}", "\u{fe0f}", "\u{e0100}", "\u{e01ef}", "\u{2065}", "\u{fff0}", "\u{e0fff}",
    // White space of other kinds, and what looks like it.
    "\u{a0}", "\u{1680}", "\u{2000}", "\u{200a}", "\u{202f}", "\u{205f}", "\u{3000}", "\u{2800}",
    "  ",
    // No characters.
    "\u{fffe}", "\u{ffff}", "\u{1fffe}", String(Unicode.Scalar(0xfdd0)!),
    String(Unicode.Scalar(0xfdef)!),
  ])
  func refused(_ part: String) {
    for text in [part, "a\(part)", "\(part)a", "a\(part)b", "\u{e9}\(part)\u{e9}"] {
      #expect(!IdentifierRules.isUser(text))
      #expect(!IdentifierRules.isDevice(text))
    }
  }

  @Test(arguments: [" ", " a", "a ", " \u{e9}", "\u{e9} "]) func spacesAtTheEnds(_ text: String) {
    #expect(!IdentifierRules.isUser(text))
  }

  @Test func lengthsAreOfBytes() {
    #expect(!IdentifierRules.isUser("") && !IdentifierRules.isDevice(""))
    #expect(IdentifierRules.isUser(String(repeating: "\u{e9}", count: 64)))
    #expect(!IdentifierRules.isUser(String(repeating: "\u{e9}", count: 65)))
    #expect(IdentifierRules.isDevice(String(repeating: "x", count: 64)))
    #expect(!IdentifierRules.isDevice(String(repeating: "x", count: 65)))
  }

  @Test func appsAreOfLettersAndDigits() {
    for name in ["demo", "Demo.2_x-y", String(repeating: "a", count: 64)] {
      #expect(IdentifierRules.isApp(name))
    }
    for name in [
      "", "a b", "d\u{e9}mo", "\u{212a}", "a/b", "a\0", String(repeating: "a", count: 65),
    ] {
      #expect(!IdentifierRules.isApp(name))
    }
  }
}
