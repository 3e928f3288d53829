import CallCore
import Testing

@Suite struct DisplayNameTests {
  @Test(arguments: [
    ("Ann Lee", "Ann Lee"), ("", ""), ("Jürgen 李", "Jürgen 李"),
    // Persian needs the zero-width non-joiner, and this emoji the joiner.
    ("می\u{200c}خواهم", "می\u{200c}خواهم"), ("👩\u{200d}💻", "👩\u{200d}💻"),
    ("Ann\r\nLee\0", "AnnLee"), ("\u{202e}eeL nnA", "eeL nnA"), ("\u{2066}Ann\u{2069}", "Ann"),
    ("\u{85}\u{2028}\u{7f}", ""),
  ])
  func onlyWhatCanBeShownRemains(given: String, shown: String) {
    #expect(DisplayName.shown(given) == shown)
  }

  @Test func aLongNameEndsWithAWholeCharacter() {
    let family = "👨\u{200d}👩\u{200d}👧"
    #expect(family.utf8.count == 18)
    let name = DisplayName.shown(String(repeating: family, count: 20))
    #expect(name == String(repeating: family, count: 7))
    #expect(
      DisplayName.shown(String(repeating: "a", count: 500)).utf8.count == DisplayName.bytesMax)
  }

  @Test func aCharacterThatIsTooLongEndsTheName() {
    let long = "e" + String(repeating: "\u{301}", count: 100)
    #expect(DisplayName.shown("Ann" + long + "Lee") == "Ann")
  }
}
