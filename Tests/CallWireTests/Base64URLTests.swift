import CallWire
import Testing

@Suite struct Base64URLTests {
  @Test(
    "both alphabets",
    arguments: [
      ([], "", ""), ([0x66], "Zg", "Zg=="), ([0x66, 0x6f], "Zm8", "Zm8="),
      ([0x66, 0x6f, 0x6f], "Zm9v", "Zm9v"), ([0xfb, 0xff], "-_8", "+/8="),
      ([0xff, 0xff, 0xff, 0xfe], "_____g", "/////g=="), ([255, 239, 0], "_-8A", "/+8A"),
    ] as [([UInt8], String, String)])
  func knownTexts(bytes: [UInt8], url: String, text: String) {
    #expect(Base64URL.text(bytes) == url)
    #expect(Base64.text(bytes) == text)
    #expect(Base64URL.bytes(url) == bytes)
    for each in [url, text] { #expect(Base64.bytes(each) == bytes) }
  }

  @Test func allLengthsComeBack() {
    var generator = Generator(seed: 5)
    for count in 0..<300 {
      let bytes = (0..<count).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
      let text = Base64URL.text(bytes)
      #expect(Base64URL.bytes(text) == bytes)
      let padded = text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
      #expect(Base64URL.bytes(padded) == bytes)
      let plain = text.replacing("-", with: "+").replacing("_", with: "/")
      #expect(Base64URL.bytes(plain) == bytes)
    }
  }

  @Test(arguments: [
    "A", "=", "==", "Zg=", "Zg===", "Z===", "Zm8==", "Zh", "Zm9", " Zg", "Zg ", "Zg\n", "Z g",
    "Zé", "Zg.", "AAAAA", "=Zg",
  ])
  func otherTextsAreRefused(text: String) {
    #expect(Base64URL.bytes(text) == nil)
  }

  @Test(arguments: ["Zg=", "====", "Z===", "Zm9*", "Zm=v", "Z"])
  func otherTextsAreRefusedByTheOther(text: String) {
    #expect(Base64.bytes(text) == nil)
  }
}
